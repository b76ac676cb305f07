/* Putting an answer together: named fields of JSON text, and the output in pieces. As JSON the
 * fields are members of one object; as safetensors they are its metadata. */
#include "server/attend/reply.h"

#include "attn/safetensors.h"
#include "server/attend/estimate.h"
#include "server/attend/source.h"
#include "server/clock.h"

#include <string.h>

enum {
    MOST_FIELDS = 9,
    WARNING_BYTES = 96,
    TIMINGS = 6,
};

#define NOTHING_TO_HOLD_AGAINST \
    "mamba, hybrid and models of several layers have no exact attention to be held against"

typedef struct field {
    const char *name;
    srv_text text; /* JSON */
} field;

typedef struct fields {
    field all[MOST_FIELDS];
    int count;
} fields;

static srv_text *add_field(fields *f, const char *name)
{
    f->all[f->count] = (field){.name = name};
    return &f->all[f->count++].text;
}

static void free_fields(fields *f)
{
    for (int i = 0; i < f->count; i++)
        srv_text_free(&f->all[i].text);
}

typedef struct timing {
    const char *name;
    double ms;
} timing;

static void fill_timings(const srv_request *request, timing timings[TIMINGS])
{
    const srv_account *account = &request->account;
    timings[0] = (timing){"receive", (double)(request->received_ns - request->arrived_ns) * 1e-6};
    timings[1] = (timing){"parse", account->parse_s * 1e3};
    timings[2] = (timing){"queue", account->queue_s * 1e3};
    timings[3] = (timing){"compute", account->compute_s * 1e3};
    timings[4] = (timing){"serialize", account->serialize_s * 1e3};
    timings[5] = (timing){"total", (double)(srv_now_ns() - request->arrived_ns) * 1e-6};
}

static void print_timings(const timing timings[TIMINGS], srv_text *text)
{
    for (int i = 0; i < TIMINGS; i++) {
        srv_text_format(text, "%s\"%s_ms\": ", i ? ", " : "{", timings[i].name);
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
                    "{\"workspace_bytes\": %zu, \"predicted_bytes\": %zu, \"exact_matrix_bytes\": ",
                    reply->request->account.workspace_bytes, srv_decision_bytes(d));
    srv_text_real(text, (double)s->n * (double)s->m * sizeof(float));
    srv_text_string(text, "}");
}

/* Only sampling for the metrics alone stays out of the answer. */
static bool tells_estimate(const srv_reply *reply)
{
    const srv_call *call = reply->call;
    return !reply->plan_only &&
           (call->wants_estimate || (call->max_relative_error > 0 && reply->deviation.rows > 0));
}

static void print_warnings(const srv_reply *reply, fields *f)
{
    const char *warnings[4];
    const srv_decision *d = reply->decision;
    const attn_candidate *chosen = srv_decision_chosen(d);
    bool asked = strcmp(d->choice.rule, "explicit") == 0;
    char untrained[WARNING_BYTES];
    int count = 0;
    if (!chosen->trained && reply->call->model) {
        snprintf(untrained, sizeof untrained,
                 "the weights of this model are not said to be trained with %s", chosen->name);
        warnings[count++] = untrained;
    } else if (!chosen->trained && !asked)
        warnings[count++] = "the backend approximates exact attention, and nothing says that these "
                            "tensors come from weights trained with it";
    if (attn_program_warning(srv_decision_program(d))[0])
        warnings[count++] = attn_program_warning(srv_decision_program(d));
    if (!srv_estimate_exists(reply->call, chosen)) {
        if (reply->call->wants_estimate)
            warnings[count++] = "measure_error: " NOTHING_TO_HOLD_AGAINST;
        if (reply->call->max_relative_error > 0)
            warnings[count++] = "max_relative_error was not held: " NOTHING_TO_HOLD_AGAINST;
    }
    srv_text *text = add_field(f, "warnings");
    srv_text_string(text, "[");
    for (int i = 0; i < count; i++) {
        srv_text_string(text, i ? ", " : "");
        srv_text_json(text, warnings[i]);
    }
    srv_text_string(text, "]");
}

static void print_fields(const srv_reply *reply, fields *f)
{
    srv_request *request = reply->request;
    srv_text_json(add_field(f, "id"), request->id.text);
    if (reply->call->model)
        srv_text_json(add_field(f, "model"), attn_model_info_of(reply->call->model)->name);
    srv_text_json(add_field(f, "backend"), srv_decision_chosen(reply->decision)->name);
    srv_decision_print(reply->decision, add_field(f, "route"));
    print_warnings(reply, f);
    timing timings[TIMINGS];
    fill_timings(request, timings);
    write_server_timing(timings, &request->answer);
    if (reply->plan_only)
        return;
    if (tells_estimate(reply))
        srv_estimate_print(reply->call, srv_decision_chosen(reply->decision), reply->deviation,
                           add_field(f, "error_estimate"));
    print_timings(timings, add_field(f, "timing"));
    print_memory(reply, add_field(f, "memory"));
}

static bool add_pieces(srv_reply *reply, srv_answer *answer)
{
    bool whole = true;
    for (int64_t i = 0; i < reply->piece_count; i++) {
        srv_part *piece = &reply->pieces[i];
        whole = srv_answer_add(answer, piece->data, piece->length) && whole;
        piece->data = NULL;
    }
    return whole;
}

static bool write_json(srv_reply *reply, fields *f, srv_answer *answer)
{
    srv_text head = SRV_TEXT_EMPTY, tail = SRV_TEXT_EMPTY;
    for (int i = 0; i < f->count; i++) {
        srv_text *text = &f->all[i].text;
        srv_text_format(&head, "%s\"%s\": ", i ? ",\n " : "{", f->all[i].name);
        head.failed |= text->failed;
        srv_text_add(&head, text->data ? text->data : "", text->length);
    }
    if (reply->output)
        srv_text_string(&head, ",\n \"output\": ");
    srv_text_string(&tail, "}\n");
    bool whole = srv_answer_add_text(answer, &head);
    if (reply->output)
        whole = add_pieces(reply, answer) && whole;
    return srv_answer_add_text(answer, &tail) && whole;
}

static bool write_safetensors(srv_reply *reply, fields *f, srv_answer *answer)
{
    attn_metadata metadata[MOST_FIELDS];
    attn_stored tensor = {.name = "output", .dtype = ATTN_FP32};
    const srv_output *output = reply->output;
    unsigned char *header;
    size_t bytes;
    for (int i = 0; i < f->count; i++) {
        if (f->all[i].text.failed)
            return false;
        metadata[i] = (attn_metadata){f->all[i].name, f->all[i].text.data};
    }
    if (output) {
        tensor.rank = output->rank;
        for (int i = 0; i < output->rank; i++)
            tensor.dim[i] = output->dim[i];
    }
    if (attn_safetensors_header(&tensor, output ? 1 : 0, metadata, f->count, &header, &bytes,
                                NULL) != ATTN_OK ||
        !srv_answer_add(answer, (char *)header, bytes))
        return false;
    if (!output)
        return true;
    char *data = (char *)reply->data;
    reply->data = NULL;
    return srv_answer_add(answer, data, srv_output_count(output) * sizeof(float));
}

bool srv_reply_write(srv_reply *reply)
{
    srv_answer *answer = &reply->request->answer;
    bool binary = reply->request->wanted == SRV_FORMAT_SAFETENSORS;
    fields f = {.count = 0};
    print_fields(reply, &f);
    bool whole = (binary ? write_safetensors : write_json)(reply, &f, answer);
    free_fields(&f);
    answer->content_type = binary ? SRV_SAFETENSORS_TYPE : SRV_JSON_TYPE;
    answer->status = 200;
    if (!whole)
        srv_answer_free(answer);
    return whole;
}
