/* libmicrohttpd's callbacks. It calls on_request once for the headers, then with pieces of the
 * body, then once more; a request with work to do is suspended there, and asked again after it is
 * resumed. A refusal known from the headers is answered on the first call: later ones would be
 * refused by the library while a body is still arriving. */
#include "server/http.h"

#include "server/admission.h"
#include "server/attend/source.h"
#include "server/clock.h"
#include "server/exchange.h"
#include "server/loop.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    CONNECTION_BYTES = 64 << 10, /* of libmicrohttpd's buffers: headers, and a piece of a body */
    ADMIN_CONNECTIONS = 64,
};

static void log_line(void *context, const char *format, va_list args)
{
    char line[256];
    srv_port *port = context;
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    srv_log_event(&port->server->log, SRV_LOG_DEBUG, "libmicrohttpd",
                  (srv_log_field[]){srv_log_string("detail", line)}, 1);
}

static const char *header(const srv_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

static enum MHD_Result note_header(void *context, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    (void)kind;
    srv_framing_note(context, name, value ? value : "");
    return MHD_YES;
}

/* Stops at a NUL byte, behind which a name or value would go on unseen. */
static enum MHD_Result note_parameter(void *context, enum MHD_ValueKind kind, const char *name,
                                      size_t name_length, const char *value, size_t value_length)
{
    (void)kind;
    srv_request *request = context;
    if (strlen(name) < name_length || (value && strlen(value) < value_length))
        return MHD_NO;
    request->query[request->query_count++] = (srv_pair){name, value ? value : ""};
    return MHD_YES;
}

/* libmicrohttpd hands over a path as C text: behind a NUL byte it would go on unseen. Such a path
 * stays as it was sent, and leads nowhere. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    bool is_path = text[0] == '/';
    return is_path && strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

static srv_peer *peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static int socket_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static srv_exchange *open_exchange(srv_server *server, struct MHD_Connection *connection,
                                   const char *path, const char *method)
{
    srv_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->connection = connection;
    x->peer = peer_of(connection);
    srv_request *request = &x->request;
    request->server = server;
    request->arrived_ns = srv_now_ns();
    srv_peer_set(x->peer, SRV_PEER_BODY, request->arrived_ns);
    snprintf(request->method, sizeof request->method, "%s", method);
    snprintf(request->path, sizeof request->path, "%s", path);
    srv_request_id_set(&request->id, header(x, "X-Request-Id"));
    srv_trace_parse(&request->trace, header(x, "traceparent"));
    MHD_get_connection_values(connection, MHD_HEADER_KIND, note_header, &x->framing);
    server->in_flight++;
    return x;
}

static bool refuse(srv_exchange *x, srv_problem problem)
{
    srv_request_refuse(&x->request, problem);
    return false;
}

/* The decoded query string; its text belongs to the connection and outlives the request. */
static bool read_query(srv_exchange *x)
{
    srv_request *request = &x->request;
    int count = MHD_get_connection_values(x->connection, MHD_GET_ARGUMENT_KIND, NULL, NULL);
    request->query = calloc(count > 0 ? (size_t)count : 1, sizeof *request->query);
    if (!request->query)
        return refuse(x, srv_problem_from(ATTN_NO_MEMORY, NULL));
    MHD_get_connection_values_n(x->connection, MHD_GET_ARGUMENT_KIND, note_parameter, request);
    return request->query_count == count ||
           refuse(x, srv_problem_make(SRV_PROBLEM_INVALID, "query",
                                      "the query string holds a NUL byte (%%00)"));
}

static bool find_route(srv_exchange *x, bool admin)
{
    srv_request *request = &x->request;
    char allow[64];
    bool takes_method = false;
    request->route =
        srv_route_find(request->method, request->path, &takes_method, allow, sizeof allow);
    if (request->route && admin && !request->route->admin)
        request->route = NULL;
    if (!request->route)
        return refuse(x, srv_problem_make(SRV_PROBLEM_NOT_FOUND, NULL, "there is nothing at %s",
                                          request->path));
    if (takes_method)
        return true;
    refuse(x, srv_problem_make(SRV_PROBLEM_METHOD, NULL, "%s does not take %s, only %s",
                               request->path, request->method, allow));
    snprintf(request->answer.allow, sizeof request->answer.allow, "%s", allow);
    return false;
}

static bool is_media_type(const char *found, const char *type)
{
    size_t length = strlen(type);
    return strncasecmp(found, type, length) == 0 && strchr("; ", found[length]);
}

static bool choose_formats(srv_exchange *x)
{
    static const char json[] = SRV_JSON_TYPE, tensors[] = SRV_SAFETENSORS_TYPE;
    srv_request *request = &x->request;
    const char *type = header(x, "Content-Type"), *accept = header(x, "Accept");
    const char *encoding = header(x, "Content-Encoding");
    request->wanted =
        accept && strcasestr(accept, tensors) ? SRV_FORMAT_SAFETENSORS : SRV_FORMAT_JSON;
    if (encoding && strcasecmp(encoding, "identity") != 0)
        return refuse(x, srv_problem_make(SRV_PROBLEM_MEDIA_TYPE, "Content-Encoding",
                                          "found %.32s, expected the body as it is", encoding));
    if (!type || is_media_type(type, json))
        request->format = SRV_FORMAT_JSON;
    else if (is_media_type(type, tensors))
        request->format = SRV_FORMAT_SAFETENSORS;
    else
        return refuse(x, srv_problem_make(SRV_PROBLEM_MEDIA_TYPE, "Content-Type",
                                          "found %.64s, expected %s%s%s", type, json,
                                          request->route->tensors ? " or " : "",
                                          request->route->tensors ? tensors : ""));
    return true;
}

static srv_problem shutting_down(void)
{
    return srv_problem_make(SRV_PROBLEM_UNAVAILABLE, NULL,
                            "attnd is shutting down; ask another instance");
}

/* What a request with work must pass before its body is read. */
static bool check_work(srv_exchange *x)
{
    srv_request *request = &x->request;
    srv_server *server = request->server;
    srv_problem problem;
    if (server->draining)
        return refuse(x, shutting_down());
    if (!choose_formats(x) || !read_query(x))
        return false;
    size_t bytes = srv_source_bound(request->format, (size_t)x->framing.length);
    if (srv_admit_job(server, &problem) &&
        srv_admit_bytes(server, &request->share, bytes, "the body", &problem))
        return true;
    return refuse(x, problem);
}

static bool check_head(srv_exchange *x, bool admin, const char *version)
{
    srv_problem problem;
    uint64_t most = (uint64_t)x->request.server->config.max_body_bytes;
    if (!srv_framing_check(&x->framing, version, most, &problem))
        return refuse(x, problem);
    return find_route(x, admin) && (strcmp(x->request.route->method, "POST") != 0 || check_work(x));
}

static enum MHD_Result send_answer(srv_exchange *x)
{
    return srv_exchange_send(x) ? MHD_YES : MHD_NO;
}

/* The body is complete. */
static enum MHD_Result dispatch(srv_exchange *x)
{
    srv_request *request = &x->request;
    srv_problem problem;
    x->dispatched = true;
    request->received_ns = srv_now_ns();
    bool work = request->format != SRV_FORMAT_NONE;
    if (!srv_exchange_close_body(x)) {
        srv_request_refuse(request, x->late);
        return send_answer(x);
    }
    if (work && request->server->drained) {
        srv_request_refuse(request, shutting_down());
        return send_answer(x);
    }
    if (work && !srv_admit_job(request->server, &problem)) {
        srv_request_refuse(request, problem);
        return send_answer(x);
    }
    request->accepted = true;
    request->server->accepted++;
    request->route->endpoint(request);
    if (!request->job)
        return send_answer(x);
    MHD_suspend_connection(x->connection);
    srv_peer_set(x->peer, SRV_PEER_WORK, request->received_ns);
    srv_loop_wait(request->server->loop, request, socket_of(x->connection));
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **state)
{
    const srv_port *port = context;
    srv_exchange *x = *state;
    if (!x) {
        x = *state = open_exchange(port->server, connection, path, method);
        if (!x)
            return MHD_NO;
        if (check_head(x, port->admin, version))
            return MHD_YES;
        x->dispatched = true;
        x->unread = srv_framing_has_body(&x->framing);
        return send_answer(x);
    }
    if (*size > 0) {
        bool more = srv_exchange_receive(x, data, *size);
        *size = 0;
        return more ? MHD_YES : MHD_NO;
    }
    return x->dispatched ? send_answer(x) : dispatch(x);
}

/* The client went away, or was sent away for taking too long. An answer that was ready keeps its
 * status, though nobody read it. */
static void count_unsent(srv_exchange *x)
{
    srv_answer *answer = &x->request.answer;
    if (!x->request.left)
        srv_metrics_add(x->request.server->metrics, SRV_METRIC_REQUESTS_CANCELLED, 1,
                        SRV_LABELS(answer->status ? "send" : "receive"));
    if (!answer->status) {
        answer->status = srv_problem_http(SRV_PROBLEM_CANCELLED);
        answer->problem_type = srv_problem_type(SRV_PROBLEM_CANCELLED);
    }
    if (!x->answered)
        srv_exchange_count(x);
}

/* The last of a request, answered or not. */
static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    srv_exchange *x = *state;
    (void)context;
    if (!x)
        return;
    *state = NULL;
    srv_request *request = &x->request;
    srv_server *server = request->server;
    int64_t now_ns = srv_now_ns();
    double seconds = (double)(now_ns - request->arrived_ns) * 1e-9;
    srv_metrics_observe(server->metrics, SRV_METRIC_HTTP_REQUEST_DURATION, seconds,
                        SRV_LABELS(srv_exchange_route(x)));
    srv_peer_set(x->peer, SRV_PEER_IDLE, now_ns);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        count_unsent(x);
    else if (x->unread)
        srv_loop_linger(server->loop, socket_of(connection));
    srv_exchange_log(x, seconds);
    server->in_flight--;
    server->accepted -= request->accepted;
    srv_answer_free(&request->answer);
    srv_request_drop_body(request);
    srv_share_resize(&request->share, &server->budget, 0);
    free(request->query);
    free(x);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    const srv_port *port = context;
    srv_peers *peers = &port->server->peers;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *state = srv_peers_add(peers, socket_of(connection), srv_now_ns());
    else
        srv_peers_remove(peers, *state);
}

struct MHD_Daemon *srv_http_open(srv_port *port, int listen_fd, attn_error *error)
{
    int64_t most = port->admin ? ADMIN_CONNECTIONS : port->server->config.max_connections;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request,
        port, MHD_OPTION_EXTERNAL_LOGGER, log_line, port, MHD_OPTION_UNESCAPE_CALLBACK, unescape,
        NULL, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, port,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, port, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_LIMIT, (unsigned)most, MHD_OPTION_END);
    if (!daemon)
        attn_error_set(error, ATTN_INTERNAL, NULL, "libmicrohttpd does not start");
    return daemon;
}

void srv_http_resume(srv_request *request)
{
    MHD_resume_connection(((srv_exchange *)(void *)request)->connection);
}
