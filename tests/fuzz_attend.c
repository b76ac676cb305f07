/* libFuzzer target: a whole request to attend, plan or analyze, from its body to the text of its
 * answer.
 *
 * The input is a line, then the body. The line's first character, counted from '0', says by its
 * bits what is asked (see below), the rest of the line is the query string. A safetensors body
 * comes without the length in front of its header, which reaches to the last brace: a mutation that
 * changes the header's size would else never get past the length. There are the models of
 * tests/inline/models.h. */
#include "attn/safetensors.h"
#include "server/attend/source.h"
#include "server/endpoints/endpoints.h"
#include "tests/inline/models.h"
#include "tests/inline/serve.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINARY_BODY = 1,
    BINARY_ANSWER = 2,
    PLAN_ONLY = 4,
    ANALYZE = 8,
    PAIRS = 32,
};

typedef struct input {
    inline_call call;
    bool plan_only, analyze;
    srv_pair pairs[PAIRS];
    char *line, *body; /* owned */
} input;

/* What the answer is held against. */
typedef struct expectation {
    int rank;
    int64_t dim[SRV_RANK_MAX];
    srv_form form;
    float most; /* the value furthest from 0 */
    bool output;
} expectation;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what, const char *which)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, which);
        abort();
    }
}

static void *need(void *memory)
{
    require(memory != NULL, "no memory", "for the fuzzer itself");
    return memory;
}

/* The input */

static int split(char *text, srv_pair pairs[PAIRS])
{
    int count = 0;
    for (char *at = *text ? text : NULL; at && count < PAIRS; count++) {
        char *name = strsep(&at, "&");
        char *equals = strchr(name, '=');
        pairs[count] = (srv_pair){name, equals ? equals + 1 : ""};
        if (equals)
            *equals = '\0';
    }
    return count;
}

/* Put the length of the header in front. */
static void prepend_length(input *in, const uint8_t *data, size_t size)
{
    size_t header = size;
    while (header > 0 && data[header - 1] != '}')
        header--;
    in->call.body_length = size + 8;
    in->body = need(malloc(size + 8));
    for (int i = 0; i < 8; i++)
        in->body[i] = (char)((uint64_t)header >> 8 * i);
    memcpy(in->body + 8, data, size);
}

static void read_input(input *in, const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t line = end ? (size_t)(end - data) : size;
    size_t from = end ? line + 1 : size;
    int flags = size ? data[0] - '0' : 0;
    *in = (input){.line = need(calloc(1, line + 1))};
    if (line > 0)
        memcpy(in->line, data + 1, line - 1);
    in->plan_only = flags & PLAN_ONLY;
    in->analyze = flags & ANALYZE;
    in->call = (inline_call){
        .endpoint = in->analyze     ? srv_endpoint_analyze
                    : in->plan_only ? srv_endpoint_plan
                                    : srv_endpoint_attend,
        .format = flags & BINARY_BODY ? SRV_FORMAT_SAFETENSORS : SRV_FORMAT_JSON,
        .wanted = flags & BINARY_ANSWER ? SRV_FORMAT_SAFETENSORS : SRV_FORMAT_JSON,
        .query = in->pairs,
        .query_count = split(in->line, in->pairs),
    };
    if (flags & BINARY_BODY) {
        prepend_length(in, data + from, size - from);
    } else {
        in->call.body_length = size - from;
        in->body = need(malloc(size - from + 1));
        memcpy(in->body, data + from, size - from);
    }
    in->call.body = in->body;
}

/* What must come of it */

static float most_of(const srv_tensor *tensor)
{
    float most = 0;
    for (size_t i = 0; i < tensor->count; i++)
        most = fmaxf(most, fabsf(tensor->data[i]));
    return most;
}

/* Read an accepted request a second time, for the sizes and values that its answer follows from. */
static void read_expectation(srv_server *server, const input *in, expectation *expected)
{
    srv_request request;
    attn_error error = {0};
    require(inline_begin(server, &in->call, &request), "no memory", "for a second reading");
    srv_source *source = need(srv_source_open(&request));
    srv_body_step step = SRV_BODY_MORE;
    while (step == SRV_BODY_MORE)
        step = srv_source_read(source, 16, &error);
    require(step == SRV_BODY_DONE, "small slices make a difference", error.message);
    srv_options options;
    unsigned routes = in->plan_only ? SRV_FOR_ATTEND | SRV_FOR_PLAN : SRV_FOR_ATTEND;
    require(srv_source_options(source, routes, &options, &error) == ATTN_OK,
            "the options differ the second time", error.message);
    srv_inputs inputs = srv_source_inputs(source);
    *expected = (expectation){.output = !in->plan_only &&
                                        srv_options_bool(&options, SRV_FIELD_RETURN_OUTPUT, true)};
    if (expected->output) {
        const srv_tensor *like = inputs.input ? inputs.input : inputs.q;
        const srv_tensor *values = inputs.input ? inputs.input : inputs.v;
        expected->rank = like->rank;
        memcpy(expected->dim, like->dim, sizeof expected->dim);
        expected->dim[like->rank - 1] = values->dim[values->rank - 1];
        expected->form = like->form;
        expected->most = inputs.input ? FLT_MAX : most_of(values);
    }
    srv_options_free(&options);
    srv_source_close(source);
    inline_end(&request);
}

/* A row of the output is an average of rows of v, but for rounding; Linformer's projections alone
 * may have entries that are not. */
static void check_values(const float *values, size_t count, float most, const char *backend)
{
    if (strstr(backend, "linformer"))
        most = FLT_MAX;
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, values + i, sizeof value);
        require(isfinite(value) && fabsf(value) <= most * 1.001F + 1000 * FLT_TRUE_MIN,
                "an output beyond every value", backend);
    }
}

/* The answer */

/* Read the output with the reader of request bodies, which another target holds against jansson. */
static void check_json_output(const json_t *output, const expectation *expected,
                              const char *backend)
{
    json_t *document = json_pack("{sO}", "q", output);
    char *text = need(json_dumps(document, JSON_COMPACT));
    size_t length = strlen(text);
    text = need(realloc(text, length + SRV_BODY_PADDING));
    memset(text + length, 0, SRV_BODY_PADDING);
    srv_body *body = need(srv_body_open(text, length));
    attn_error error = {0};
    srv_body_step step;
    do
        step = srv_body_read(body, length, &error);
    while (step == SRV_BODY_MORE);
    require(step == SRV_BODY_DONE, "the output cannot be read back", error.message);
    const srv_tensor *tensor = srv_body_tensor(body, "q");
    require(tensor && tensor->rank == expected->rank &&
                memcmp(tensor->dim, expected->dim, (size_t)tensor->rank * sizeof *tensor->dim) == 0,
            "shape of the output", text);
    require(tensor->form == expected->form, "form of the output", text);
    check_values(tensor->data, tensor->count, expected->most, backend);
    srv_body_close(body);
    free(text);
    json_decref(document);
}

static void check_json_answer(const char *text, size_t length, const expectation *expected)
{
    json_t *answer = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    require(json_is_object(answer), "the answer is not JSON", text);
    const char *backend = json_string_value(json_object_get(answer, "backend"));
    require(backend != NULL, "no backend", text);
    require(json_is_object(json_object_get(answer, "route")), "no route", text);
    const json_t *output = json_object_get(answer, "output");
    require(!output == !expected->output, "whether there is an output", text);
    if (output)
        check_json_output(output, expected, backend);
    json_decref(answer);
}

static void check_binary_answer(const char *bytes, size_t length, const expectation *expected)
{
    attn_error error = {0};
    attn_safetensors *file = attn_safetensors_open(bytes, length, "the answer", &error);
    require(file != NULL, "the answer is not safetensors", error.message);
    const char *route = attn_safetensors_metadata(file, "route");
    const char *backend = attn_safetensors_metadata(file, "backend"); /* with its quotes */
    require(backend != NULL, "no backend", "in the metadata");
    json_t *document = route ? json_loads(route, JSON_REJECT_DUPLICATES, NULL) : NULL;
    require(json_is_object(document), "no route", "in the metadata");
    json_decref(document);
    const attn_stored *output = attn_safetensors_find(file, "output");
    require(!output == !expected->output, "whether there is an output", "in safetensors");
    if (output) {
        require(
            output->dtype == ATTN_FP32 && output->rank == expected->rank &&
                memcmp(output->dim, expected->dim, (size_t)output->rank * sizeof *output->dim) == 0,
            "shape of the output", "in safetensors");
        check_values((const float *)(const void *)output->data, output->count, expected->most,
                     backend);
    }
    attn_safetensors_close(file);
}

/* An analysis is JSON whatever was wanted, and its figures are numbers. */
static void check_analysis(const char *text, size_t length)
{
    json_t *answer = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *heads = json_object_get(answer, "heads");
    require(json_array_size(heads) > 0, "no heads", text);
    for (size_t h = 0; h < json_array_size(heads); h++) {
        const json_t *head = json_array_get(heads, h);
        const json_t *energy = json_object_get(head, "cumulative_energy");
        size_t count = json_array_size(energy);
        double whole = json_number_value(json_array_get(energy, count ? count - 1 : 0));
        require(fabs(whole - 1) < 1e-9, "the energies do not add up", text);
        require(json_number_value(json_object_get(head, "stable_rank")) > 1 - 1e-9, "stable rank",
                text);
    }
    json_decref(answer);
}

static void check_refusal(const srv_answer *answer, const char *text, size_t length)
{
    int status = answer->status;
    require(status == 400 || status == 404 || status == 413 || status == 422 || status == 429,
            "odd status", text);
    json_t *document = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const json_t *error = json_object_get(document, "error");
    require(json_string_length(json_object_get(error, "message")) > 0, "no message", text);
    require(json_is_string(json_object_get(error, "request_id")), "no id", text);
    json_decref(document);
}

static void check_answer(srv_server *server, const input *in, srv_request *request)
{
    char *text = need(inline_body(request));
    if (request->answer.status != 200)
        check_refusal(&request->answer, text, request->bytes_out);
    else
        require(request->share.bytes == request->bytes_out, "an answer larger than was reserved",
                text);
    if (request->answer.status == 200 && in->analyze) {
        check_analysis(text, request->bytes_out);
    } else if (request->answer.status == 200) {
        expectation expected;
        read_expectation(server, in, &expected);
        (in->call.wanted == SRV_FORMAT_JSON ? check_json_answer : check_binary_answer)(
            text, request->bytes_out, &expected);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    srv_server server;
    input in;
    srv_request request;
    read_input(&in, data, size);
    require(inline_open(&server), "no memory", "for the server");
    server.registry = inline_models();
    require(inline_begin(&server, &in.call, &request), "no memory", "for the request");
    inline_answer(&in.call, &request);
    check_answer(&server, &in, &request);
    inline_end(&request);
    require(server.budget.reserved == 0 && server.jobs == 0, "something is held", "at the end");
    inline_close(&server);
    free(in.line);
    free(in.body);
    return 0;
}
