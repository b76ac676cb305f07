/* libmicrohttpd's callbacks. It calls on_request once for the headers, then with pieces of the
 * body, then once more; a request with work to do is suspended there, and asked again after it is
 * resumed. A refusal known from the headers is answered on the first call: later ones would be
 * refused by the library while a body is still arriving. */
#include "server/http.h"

#include "server/codec/body.h"
#include "server/http_check.h"
#include "server/loop.h"
#include "server/request.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    CONNECTION_BYTES = 64 << 10, /* of libmicrohttpd's buffers: headers, and a piece of a body */
};

typedef struct exchange {
    srv_request request; /* first: resuming gets the exchange back from it */
    struct MHD_Connection *connection;
    srv_framing framing;
    bool dispatched; /* the endpoint has been called, or the refusal made */
    bool answered;
    bool unread; /* answered before the body had come */
    bool refused_late;
    srv_problem late; /* to be answered once the body has been dropped */
    uint64_t dropped;
} exchange;

static void log_line(void *context, const char *format, va_list args)
{
    char line[256];
    srv_server *server = context;
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    srv_log_event(&server->log, SRV_LOG_DEBUG, "libmicrohttpd",
                  (srv_log_field[]){srv_log_string("detail", line)}, 1);
}

static const char *header(const exchange *x, const char *name)
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

static exchange *open_exchange(srv_server *server, struct MHD_Connection *connection,
                               const char *path, const char *method)
{
    exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->connection = connection;
    srv_request *request = &x->request;
    request->server = server;
    request->arrived_ns = srv_now_ns();
    snprintf(request->method, sizeof request->method, "%s", method);
    snprintf(request->path, sizeof request->path, "%s", path);
    srv_request_id_set(&request->id, header(x, "X-Request-Id"));
    srv_trace_parse(&request->trace, header(x, "traceparent"));
    MHD_get_connection_values(connection, MHD_HEADER_KIND, note_header, &x->framing);
    server->in_flight++;
    return x;
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    if (!content_type || strncasecmp(content_type, json, sizeof json - 1) != 0)
        return !content_type;
    char next = content_type[sizeof json - 1];
    return next == '\0' || next == ';' || next == ' ';
}

static bool refuse(exchange *x, srv_problem problem)
{
    srv_request_refuse(&x->request, problem);
    return false;
}

static bool find_route(exchange *x)
{
    srv_request *request = &x->request;
    char allow[64];
    bool takes_method = false;
    request->route =
        srv_route_find(request->method, request->path, &takes_method, allow, sizeof allow);
    if (takes_method)
        return true;
    if (!request->route)
        return refuse(x, srv_problem_make(SRV_PROBLEM_NOT_FOUND, NULL, "there is nothing at %s",
                                          request->path));
    refuse(x, srv_problem_make(SRV_PROBLEM_METHOD, NULL, "%s does not take %s, only %s",
                               request->path, request->method, allow));
    snprintf(request->answer.allow, sizeof request->answer.allow, "%s", allow);
    return false;
}

/* Everything that can be refused before the body. */
static bool check_head(exchange *x, const char *version)
{
    srv_request *request = &x->request;
    const srv_server *server = request->server;
    srv_problem problem;
    uint64_t most = (uint64_t)server->config.max_body_bytes;
    if (!srv_framing_check(&x->framing, version, most, &problem))
        return refuse(x, problem);
    if (!find_route(x))
        return false;
    bool work = strcmp(request->route->method, "POST") == 0;
    if (work && server->draining)
        return refuse(x, srv_problem_make(SRV_PROBLEM_UNAVAILABLE, NULL,
                                          "attnd is shutting down; ask another instance"));
    const char *type = header(x, "Content-Type");
    if (work && !is_json(type))
        return refuse(x, srv_problem_make(SRV_PROBLEM_MEDIA_TYPE, "Content-Type",
                                          "found %.64s, expected application/json", type));
    return true;
}

typedef struct kept_parts {
    srv_part *parts;
    size_t count;
} kept_parts;

static void free_parts(void *context)
{
    kept_parts *kept = context;
    for (size_t i = 0; i < kept->count; i++)
        free(kept->parts[i].data);
    free(kept->parts);
    free(kept);
}

/* A response that takes the answer's parts over; an empty one when there is no memory. */
static struct MHD_Response *make_response(srv_answer *answer)
{
    struct MHD_Response *response = NULL;
    size_t count = answer->part_count;
    struct MHD_IoVec *vector = calloc(count ? count : 1, sizeof *vector);
    kept_parts *kept = malloc(sizeof *kept);
    if (vector && kept && count) {
        for (size_t i = 0; i < count; i++)
            vector[i] = (struct MHD_IoVec){answer->parts[i].data, answer->parts[i].length};
        *kept = (kept_parts){answer->parts, count};
        response = MHD_create_response_from_iovec(vector, (unsigned)count, free_parts, kept);
    }
    free(vector);
    if (response) {
        answer->parts = NULL;
        answer->part_count = answer->part_room = 0;
        return response;
    }
    free(kept);
    return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && value[0])
        MHD_add_response_header(response, name, value);
}

static const char *method_label(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], method) == 0)
            return known[i];
    return "other";
}

static const char *route_label(const srv_request *request)
{
    return request->route ? request->route->path : "other";
}

static void count_answer(const srv_request *request)
{
    char code[8];
    snprintf(code, sizeof code, "%d", request->answer.status);
    srv_metrics_add(request->server->metrics, SRV_METRIC_HTTP_REQUESTS, 1,
                    SRV_LABELS(route_label(request), method_label(request->method), code));
}

static enum MHD_Result send_answer(exchange *x)
{
    srv_request *request = &x->request;
    srv_answer *answer = &request->answer;
    request->bytes_out = srv_answer_bytes(answer);
    struct MHD_Response *response = make_response(answer);
    if (!response)
        return MHD_NO;
    char seconds[16] = "";
    if (answer->retry_after_s)
        snprintf(seconds, sizeof seconds, "%d", answer->retry_after_s);
    add_header(response, "Content-Type", answer->content_type);
    add_header(response, "X-Request-Id", request->id.text);
    add_header(response, "Allow", answer->allow);
    add_header(response, "Retry-After", seconds);
    add_header(response, "Server-Timing", answer->server_timing);
    if (x->unread || request->server->draining)
        add_header(response, "Connection", "close");
    count_answer(request);
    x->answered = true;
    enum MHD_Result result = MHD_queue_response(x->connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static void refuse_late(exchange *x, srv_problem problem)
{
    srv_request *request = &x->request;
    x->refused_late = true;
    x->late = problem;
    free(request->body);
    request->body = NULL;
    request->body_length = request->body_room = 0;
}

/* Room for `more` bytes of body and the padding behind them. */
static bool grow_body(exchange *x, size_t more)
{
    srv_request *request = &x->request;
    size_t needed = request->body_length + more + SRV_BODY_PADDING;
    if (needed <= request->body_room)
        return true;
    size_t room =
        x->framing.lengths ? (size_t)x->framing.length + SRV_BODY_PADDING : 2 * request->body_room;
    if (room < needed)
        room = needed;
    char *body = realloc(request->body, room);
    if (!body)
        return false;
    request->body = body;
    request->body_room = room;
    return true;
}

/* Take a piece of the body. False ends the connection: too much of a refused body came. */
static bool receive(exchange *x, const char *data, size_t size)
{
    srv_request *request = &x->request;
    uint64_t most = (uint64_t)request->server->config.max_body_bytes;
    if (!x->refused_late && request->body_length + size > most)
        refuse_late(x, srv_problem_make(SRV_PROBLEM_TOO_LARGE, NULL,
                                        "the body has more than %llu bytes, the limit "
                                        "(max_body_bytes); send less or raise the limit",
                                        (unsigned long long)most));
    if (!x->refused_late && !grow_body(x, size))
        refuse_late(x, srv_problem_from(ATTN_NO_MEMORY, NULL));
    if (x->refused_late) {
        x->dropped += size;
        return x->dropped <= (uint64_t)request->server->config.max_discard_bytes;
    }
    memcpy(request->body + request->body_length, data, size);
    request->body_length += size;
    return true;
}

static int socket_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

/* The body is complete. */
static enum MHD_Result dispatch(exchange *x)
{
    srv_request *request = &x->request;
    x->dispatched = true;
    request->received_ns = srv_now_ns();
    if (x->refused_late) {
        srv_request_refuse(request, x->late);
        return send_answer(x);
    }
    if (!grow_body(x, 0)) {
        srv_request_refuse(request, srv_problem_from(ATTN_NO_MEMORY, NULL));
        return send_answer(x);
    }
    memset(request->body + request->body_length, 0, SRV_BODY_PADDING);
    request->accepted = true;
    request->server->accepted++;
    request->route->endpoint(request);
    if (!request->job)
        return send_answer(x);
    MHD_suspend_connection(x->connection);
    srv_loop_wait(request->server->loop, request, socket_of(x->connection));
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size, void **state)
{
    exchange *x = *state;
    if (!x) {
        x = *state = open_exchange(context, connection, path, method);
        if (!x)
            return MHD_NO;
        if (check_head(x, version))
            return MHD_YES;
        x->dispatched = true;
        x->unread = srv_framing_has_body(&x->framing);
        return send_answer(x);
    }
    if (*size > 0) {
        bool more = receive(x, data, *size);
        *size = 0;
        return more ? MHD_YES : MHD_NO;
    }
    return x->dispatched ? send_answer(x) : dispatch(x);
}

static void log_request(const srv_request *request, size_t bytes_out, double seconds)
{
    const srv_account *account = &request->account;
    const srv_log_field fields[] = {
        srv_log_string("request_id", request->id.text),
        srv_log_string("method", request->method),
        srv_log_string("path", request->path),
        srv_log_int("status", request->answer.status),
        srv_log_string("error", request->answer.problem_type),
        srv_log_real("total_ms", srv_round_ms(seconds * 1e3)),
        srv_log_int("bytes_in", (int64_t)request->body_length),
        srv_log_int("bytes_out", (int64_t)bytes_out),
        srv_log_string("trace_id", request->trace.trace_id[0] ? request->trace.trace_id : NULL),
        srv_log_string("backend", account->backend),
        srv_log_string("rule", account->rule),
        srv_log_int("n", account->n),
        srv_log_real("parse_ms", srv_round_ms(account->parse_s * 1e3)),
        srv_log_real("queue_ms", srv_round_ms(account->queue_s * 1e3)),
        srv_log_real("compute_ms", srv_round_ms(account->compute_s * 1e3)),
        srv_log_real("serialize_ms", srv_round_ms(account->serialize_s * 1e3)),
    };
    size_t count = sizeof fields / sizeof *fields;
    srv_log_event(&request->server->log, SRV_LOG_INFO, "request", fields,
                  account->backend ? count : count - 7);
}

/* The last of a request, answered or not. */
static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    srv_server *server = context;
    exchange *x = *state;
    if (!x)
        return;
    *state = NULL;
    srv_request *request = &x->request;
    double seconds = (double)(srv_now_ns() - request->arrived_ns) * 1e-9;
    bool sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    if (!sent && !request->left)
        srv_metrics_add(server->metrics, SRV_METRIC_REQUESTS_CANCELLED, 1,
                        SRV_LABELS(x->answered ? "send" : "receive"));
    srv_metrics_observe(server->metrics, SRV_METRIC_HTTP_REQUEST_DURATION, seconds,
                        SRV_LABELS(route_label(request)));
    log_request(request, request->bytes_out, seconds);
    if (x->unread && sent)
        srv_loop_linger(server->loop, socket_of(connection));
    server->in_flight--;
    server->accepted -= request->accepted;
    srv_answer_free(&request->answer);
    free(request->body);
    free(x);
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)connection;
    (void)state;
    srv_server *server = context;
    server->connections += code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1;
}

struct MHD_Daemon *srv_http_open(srv_server *server, int listen_fd, attn_error *error)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request,
        server, MHD_OPTION_EXTERNAL_LOGGER, log_line, server, MHD_OPTION_LISTEN_SOCKET, listen_fd,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->config.max_connections, MHD_OPTION_END);
    if (!daemon)
        attn_error_set(error, ATTN_INTERNAL, NULL, "libmicrohttpd does not start");
    return daemon;
}

void srv_http_resume(srv_request *request)
{
    MHD_resume_connection(((exchange *)(void *)request)->connection);
}
