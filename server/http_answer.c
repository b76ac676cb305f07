/* Sending an answer, counting it, and the log line at its end. */
#include "server/exchange.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* A response that takes the answer's parts over; NULL when there is no memory. */
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
    return NULL;
}

/* What is left to say without memory for an answer. */
static struct MHD_Response *make_apology(srv_answer *answer)
{
    srv_answer_free(answer);
    answer->status = srv_problem_http(SRV_PROBLEM_NO_MEMORY);
    answer->problem_type = srv_problem_type(SRV_PROBLEM_NO_MEMORY);
    answer->retry_after_s = 1;
    return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return !value || !value[0] || MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_headers(const srv_exchange *x, struct MHD_Response *response)
{
    const srv_answer *answer = &x->request.answer;
    char seconds[16] = "";
    if (answer->retry_after_s)
        snprintf(seconds, sizeof seconds, "%d", answer->retry_after_s);
    bool closes = x->unread || x->request.server->draining;
    return add_header(response, "Content-Type", answer->content_type) &&
           add_header(response, "X-Request-Id", x->request.id.text) &&
           add_header(response, "Allow", answer->allow) &&
           add_header(response, "Retry-After", seconds) &&
           add_header(response, "Server-Timing", answer->server_timing) &&
           add_header(response, "Connection", closes ? "close" : NULL);
}

static const char *method_label(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], method) == 0)
            return known[i];
    return "other";
}

const char *srv_exchange_route(const srv_exchange *x)
{
    return x->request.route ? x->request.route->path : "other";
}

void srv_exchange_count(const srv_exchange *x)
{
    char code[8];
    snprintf(code, sizeof code, "%d", x->request.answer.status);
    srv_metrics_add(x->request.server->metrics, SRV_METRIC_HTTP_REQUESTS, 1,
                    SRV_LABELS(srv_exchange_route(x), method_label(x->request.method), code));
}

bool srv_exchange_send(srv_exchange *x)
{
    srv_request *request = &x->request;
    srv_answer *answer = &request->answer;
    request->bytes_out = srv_answer_bytes(answer);
    struct MHD_Response *response = make_response(answer);
    if (!response) {
        response = make_apology(answer);
        request->bytes_out = 0;
    }
    if (!response)
        return false;
    if (!add_headers(x, response)) {
        MHD_destroy_response(response);
        return false;
    }
    srv_exchange_count(x);
    x->answered = true;
    srv_peer_set(x->peer, SRV_PEER_SEND, srv_now_ns());
    enum MHD_Result queued = MHD_queue_response(x->connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return queued == MHD_YES;
}

void srv_exchange_log(const srv_exchange *x, double seconds)
{
    const srv_request *request = &x->request;
    const srv_account *account = &request->account;
    const srv_log_field fields[] = {
        srv_log_string("request_id", request->id.text),
        srv_log_string("method", request->method),
        srv_log_string("path", request->path),
        srv_log_int("status", request->answer.status),
        srv_log_string("error", request->answer.problem_type),
        srv_log_real("total_ms", srv_round_ms(seconds * 1e3)),
        srv_log_int("bytes_in", (int64_t)request->body_length),
        srv_log_int("bytes_out", (int64_t)request->bytes_out),
        srv_log_string("trace_id", request->trace.trace_id[0] ? request->trace.trace_id : NULL),
        srv_log_string("backend", account->backend),
        srv_log_string("rule", account->rule),
        srv_log_int("n", account->n),
        srv_log_real("parse_ms", srv_round_ms(account->parse_s * 1e3)),
        srv_log_real("queue_ms", srv_round_ms(account->queue_s * 1e3)),
        srv_log_real("compute_ms", srv_round_ms(account->compute_s * 1e3)),
        srv_log_real("serialize_ms", srv_round_ms(account->serialize_s * 1e3)),
    };
    const size_t count = sizeof fields / sizeof *fields, of_backend = 7;
    srv_log_event(&request->server->log, SRV_LOG_INFO, "request", fields,
                  account->backend ? count : count - of_backend);
}
