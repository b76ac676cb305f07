/* Putting an answer together: what is small in one text, the printed output in its pieces. */
#include "server/attend/reply.h"

#include <stdio.h>

typedef struct timing {
    const char *name;
    double ms;
} timing;

enum {
    TIMINGS = 6
};

static void fill_timings(const srv_request *request, timing timings[TIMINGS])
{
    const srv_account *account = &request->account;
    double receive_s = (double)(request->received_ns - request->arrived_ns) * 1e-9;
    double total_s = (double)(srv_now_ns() - request->arrived_ns) * 1e-9;
    timings[0] = (timing){"receive", receive_s * 1e3};
    timings[1] = (timing){"parse", account->parse_s * 1e3};
    timings[2] = (timing){"queue", account->queue_s * 1e3};
    timings[3] = (timing){"compute", account->compute_s * 1e3};
    timings[4] = (timing){"serialize", account->serialize_s * 1e3};
    timings[5] = (timing){"total", total_s * 1e3};
}

static void print_timings(const timing timings[TIMINGS], srv_text *text)
{
    srv_text_string(text, ",\n \"timing\": {");
    for (int i = 0; i < TIMINGS; i++) {
        srv_text_format(text, "%s\"%s_ms\": ", i ? ", " : "", timings[i].name);
        srv_text_ms(text, timings[i].ms);
    }
    srv_text_string(text, "}");
}

/* The same figures for browsers and proxies (W3C Server Timing). */
static void write_server_timing(const timing timings[TIMINGS], srv_answer *answer)
{
    srv_text header = srv_text_lend(answer->server_timing, sizeof answer->server_timing);
    for (int i = 0; i < TIMINGS; i++) {
        srv_text_format(&header, "%s%s;dur=", i ? ", " : "", timings[i].name);
        srv_text_ms(&header, timings[i].ms);
    }
}

static void print_memory(const srv_reply *reply, srv_text *text)
{
    const srv_decision *d = reply->decision;
    const attn_shape *s = &reply->call->shape;
    srv_text_format(text,
                    ",\n \"memory\": {\"workspace_bytes\": %zu, \"predicted_bytes\": %zu, "
                    "\"exact_matrix_bytes\": ",
                    reply->request->account.workspace_bytes,
                    d->candidates[d->choice.index].predicted_bytes);
    srv_text_real(text, (double)s->n * (double)s->m * sizeof(float));
    srv_text_string(text, "}");
}

static void print_warnings(const srv_reply *reply, srv_text *text)
{
    bool estimate = srv_options_bool(reply->options, SRV_FIELD_MEASURE_ERROR, false);
    if (estimate && !reply->plan_only)
        srv_text_string(text, ",\n \"error_estimate\": null");
    srv_text_string(text, ",\n \"warnings\": [");
    if (estimate)
        srv_text_json(text, "measure_error: exact attention is what errors are measured against, "
                            "so there is nothing to estimate");
    srv_text_string(text, "]");
}

static void print_head(const srv_reply *reply, srv_text *text)
{
    srv_text_string(text, "{\"id\": ");
    srv_text_json(text, reply->request->id.text);
    srv_text_string(text, ",\n ");
    srv_decision_print(reply->decision, text);
    print_warnings(reply, text);
}

static void write_output(srv_reply *reply, srv_answer *answer, srv_text *head)
{
    size_t length;
    srv_text_string(head, ",\n \"output\": ");
    char *data = srv_text_release(head, &length);
    bool whole = srv_answer_add(answer, data, length);
    for (int64_t i = 0; i < reply->piece_count; i++) {
        srv_part *piece = &reply->pieces[i];
        whole = srv_answer_add(answer, piece->data, piece->length) && whole;
        piece->data = NULL;
    }
    srv_text tail = SRV_TEXT_EMPTY;
    srv_text_string(&tail, "}\n");
    data = srv_text_release(&tail, &length);
    whole = srv_answer_add(answer, data, length) && whole;
    answer->status = whole ? 200 : 503;
    answer->content_type = "application/json";
}

void srv_reply_write(srv_reply *reply)
{
    srv_answer *answer = &reply->request->answer;
    srv_text text = SRV_TEXT_EMPTY;
    timing timings[TIMINGS];
    print_head(reply, &text);
    if (!reply->plan_only) {
        fill_timings(reply->request, timings);
        print_timings(timings, &text);
        write_server_timing(timings, answer);
        print_memory(reply, &text);
    }
    if (reply->pieces) {
        write_output(reply, answer, &text);
        return;
    }
    srv_text_string(&text, "}\n");
    srv_answer_text(answer, 200, "application/json", &text);
}
