/* Reading and printing, timed on a worker as a request's are: it slept, and the body comes from
 * another thread, so that a small one costs mostly what the caches lack. Hence the middle of the
 * runs, and not the best. */
#include "server/cost/codec_rates.h"

#include "attn/dtype.h"
#include "attn/safetensors.h"
#include "server/bench/crew.h"
#include "server/codec/body.h"
#include "server/codec/output.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 9,
    ROWS = 256,
    COLUMNS = 64,
    FLOATS = ROWS * COLUMNS,
    LITTLE = COLUMNS, /* floats of a body that is mostly its beginning */
    TENSORS = 3,
};
_Static_assert(FLOATS <= SRV_OUTPUT_PIECE, "all floats are one piece");

/* What is timed: work on a body or an output. */
typedef struct trial {
    attn_status (*run)(const struct trial *);
    char *body; /* owned; SRV_BODY_PADDING zero bytes follow */
    size_t length;
    srv_output output;
} trial;

static attn_status run_json(const trial *t)
{
    srv_body_step step = SRV_BODY_FAULT;
    srv_body *body = srv_body_open(t->body, t->length);
    if (body) {
        do
            step = srv_body_read(body, t->length, NULL);
        while (step == SRV_BODY_MORE);
    }
    srv_body_close(body);
    return step == SRV_BODY_DONE ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status run_stored(const trial *t)
{
    attn_safetensors *file = attn_safetensors_open(t->body, t->length, "a body", NULL);
    attn_safetensors_close(file);
    return file ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status run_print(const trial *t)
{
    size_t length;
    char *text = srv_output_print(&t->output, 0, &length);
    free(text);
    return text ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status run_check(const trial *t)
{
    return attn_first_non_finite(t->output.data, FLOATS) == FLOATS ? ATTN_OK : ATTN_NON_FINITE;
}

static attn_status run_tile(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    const trial *t = context;
    (void)phase;
    (void)tile;
    (void)scratch;
    return t->run(t);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Time and end the trial. */
static attn_status time_trial(trial *t, srv_executor *executor, attn_status status, double *ns)
{
    const attn_phase phase = {"measure", 1, 1};
    const srv_bench_work work = {
        .run = run_tile, .context = t, .phases = &phase, .phase_count = 1, .rounds = 1};
    double took_ns[RUNS];
    for (int i = 0; i < RUNS && status == ATTN_OK; i++) {
        srv_bench_result result = srv_bench_run(executor, &work);
        status = result.status;
        took_ns[i] = result.busy_ns;
    }
    free(t->body);
    t->body = NULL;
    if (status != ATTN_OK)
        return status;
    qsort(took_ns, RUNS, sizeof *took_ns, compare);
    *ns = took_ns[RUNS / 2];
    return ATTN_OK;
}

static srv_output output_of(const float *data, int floats, srv_form form)
{
    return (srv_output){.data = data, .rank = 2, .dim = {floats / COLUMNS, COLUMNS}, .form = form};
}

/* A body with that tensor, printed as the daemon prints. */
static attn_status open_json(trial *t, const srv_output *output)
{
    static const char head[] = "{\"model\":\"m\",\"backend\":\"auto\",\"causal\":true,\"q\":";
    size_t length;
    char *value = srv_output_print(output, 0, &length);
    *t = (trial){.run = run_json};
    if (value)
        t->body = calloc(1, sizeof head + length + 1 + SRV_BODY_PADDING);
    if (t->body) {
        memcpy(t->body, head, sizeof head - 1);
        memcpy(t->body + sizeof head - 1, value, length);
        t->body[sizeof head - 1 + length] = '}';
        t->length = sizeof head + length;
    }
    free(value);
    return t->body ? ATTN_OK : ATTN_NO_MEMORY;
}

/* A body with a few tensors of a number each. */
static attn_status open_stored(trial *t)
{
    static const char *const names[TENSORS] = {"q", "k", "v"};
    attn_stored tensors[TENSORS];
    unsigned char *header;
    size_t bytes;
    *t = (trial){.run = run_stored};
    for (int i = 0; i < TENSORS; i++)
        tensors[i] = (attn_stored){.name = names[i], .dtype = ATTN_FP32, .rank = 2, .dim = {1, 1}};
    attn_status status = attn_safetensors_header(tensors, TENSORS, NULL, 0, &header, &bytes, NULL);
    if (status != ATTN_OK)
        return status;
    t->length = bytes + TENSORS * sizeof(float);
    t->body = calloc(1, t->length);
    if (t->body)
        memcpy(t->body, header, bytes);
    free(header);
    return t->body ? ATTN_OK : ATTN_NO_MEMORY;
}

/* A byte of a body's text, and with `fields_ns` what a body takes before any. */
static attn_status measure_json(const float *data, srv_form form, srv_executor *executor,
                                double *byte_ns, double *fields_ns)
{
    trial little, whole;
    double little_ns = 0, whole_ns = 0;
    srv_output output = output_of(data, LITTLE, form);
    attn_status status = open_json(&little, &output);
    size_t little_bytes = little.length;
    status = time_trial(&little, executor, status, &little_ns);
    if (status != ATTN_OK)
        return status;
    output = output_of(data, FLOATS, form);
    status = open_json(&whole, &output);
    size_t more_bytes = whole.length - little_bytes;
    status = time_trial(&whole, executor, status, &whole_ns);
    *byte_ns = (whole_ns - little_ns) / (double)more_bytes;
    *fields_ns = little_ns;
    return status;
}

static attn_status measure_stored(srv_executor *executor, double *header_ns)
{
    trial t;
    attn_status status = open_stored(&t);
    return time_trial(&t, executor, status, header_ns);
}

static attn_status measure_output(const float *data, srv_executor *executor,
                                  attn_status (*run)(const trial *), srv_form form,
                                  double *float_ns)
{
    trial t = {.run = run, .output = output_of(data, FLOATS, form)};
    attn_status status = time_trial(&t, executor, ATTN_OK, float_ns);
    *float_ns /= FLOATS;
    return status;
}

/* Numbers of as many digits as any, since computed ones have them. */
static void fill(float *data)
{
    uint32_t bits = 1;
    for (int i = 0; i < FLOATS; i++) {
        bits = bits * 1664525 + 1013904223;
        data[i] = (float)(int32_t)bits * 0x1p-30F;
    }
}

attn_status srv_codec_rates_measure(srv_rates *r, srv_executor *executor)
{
    float *data = malloc(FLOATS * sizeof *data);
    double unwanted_ns;
    if (!data)
        return ATTN_NO_MEMORY;
    fill(data);
    attn_status status =
        measure_json(data, SRV_FORM_NESTED, executor, &r->read_number_byte_ns, &r->read_fields_ns);
    if (status == ATTN_OK)
        status =
            measure_json(data, SRV_FORM_BASE64, executor, &r->read_base64_byte_ns, &unwanted_ns);
    if (status == ATTN_OK)
        status = measure_stored(executor, &r->read_header_ns);
    if (status == ATTN_OK)
        status = measure_output(data, executor, run_print, SRV_FORM_NESTED, &r->print_number_ns);
    if (status == ATTN_OK)
        status = measure_output(data, executor, run_print, SRV_FORM_BASE64, &r->print_base64_ns);
    if (status == ATTN_OK)
        status = measure_output(data, executor, run_check, SRV_FORM_NESTED, &r->check_float_ns);
    free(data);
    return status;
}
