#include "server/codec/body.h"
#include "server/codec/output.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The pieces, made in reverse order, put end to end behind `prefix`, with the padding that the body
 * reader wants. The caller frees. */
static char *print_whole(const srv_output *output, const char *prefix, size_t *length)
{
    int64_t pieces = srv_output_pieces(output);
    char **parts = calloc((size_t)pieces, sizeof *parts);
    size_t *lengths = calloc((size_t)pieces, sizeof *lengths);
    if (!parts || !lengths)
        abort();
    *length = strlen(prefix);
    for (int64_t i = pieces - 1; i >= 0; i--) {
        parts[i] = srv_output_print(output, i, &lengths[i]);
        if (!parts[i])
            abort();
        *length += lengths[i];
    }
    char *text = calloc(1, *length + 1 + SRV_BODY_PADDING);
    if (!text)
        abort();
    char *to = text + strlen(strcpy(text, prefix));
    for (int64_t i = 0; i < pieces; i++) {
        memcpy(to, parts[i], lengths[i]);
        to += lengths[i];
        free(parts[i]);
    }
    free(parts);
    free(lengths);
    return text;
}

static void small_texts(void)
{
    static const float data[] = {1, 2.5f, -3, 4, 0.1f, -0.0f, 7, 8};
    static const struct {
        srv_output output;
        const char *text;
    } pairs[] = {
        {{data, 1, {1}, SRV_FORM_NESTED}, "[1]"},
        {{data, 1, {3}, SRV_FORM_NESTED}, "[1,2.5,-3]"},
        {{data, 2, {2, 2}, SRV_FORM_NESTED}, "[[1,2.5],[-3,4]]"},
        {{data, 2, {3, 1}, SRV_FORM_NESTED}, "[[1],[2.5],[-3]]"},
        {{data, 3, {2, 1, 2}, SRV_FORM_NESTED}, "[[[1,2.5]],[[-3,4]]]"},
        {{data, 4, {1, 2, 2, 2}, SRV_FORM_NESTED}, "[[[[1,2.5],[-3,4]],[[0.1,-0.0],[7,8]]]]"},
        {{data, 2, {2, 2}, SRV_FORM_FLAT},
         "{\"shape\":[2,2],\"datatype\":\"FP32\",\"data\":[1,2.5,-3,4]}"},
        {{data, 1, {1}, SRV_FORM_BASE64},
         "{\"shape\":[1],\"datatype\":\"FP32\",\"base64\":\"AACAPw==\"}"},
        {{data, 3, {1, 1, 2}, SRV_FORM_BASE64},
         "{\"shape\":[1,1,2],\"datatype\":\"FP32\",\"base64\":\"AACAPwAAIEA=\"}"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t length;
        char *text = print_whole(&pairs[i].output, "", &length);
        CHECK(length == strlen(pairs[i].text) && strcmp(text, pairs[i].text) == 0,
              "\"%s\", expected \"%s\"", text, pairs[i].text);
        free(text);
    }
}

/* What is printed reads back as the same tensor in the same form. */
static void check_round_trip(const srv_output *output)
{
    char shape[SRV_SHAPE_MAX];
    srv_tensor_shape(shape, output->dim, output->rank);
    size_t length;
    char *text = print_whole(output, "{\"q\":", &length);
    text[length++] = '}';
    srv_body *body = srv_body_open(text, length);
    attn_error error = {0};
    srv_body_step step;
    do
        step = srv_body_read(body, 50000, &error);
    while (step == SRV_BODY_MORE);
    const srv_tensor *q = step == SRV_BODY_DONE ? srv_body_tensor(body, "q") : NULL;
    CHECK(q != NULL, "%s in form %d: %s", shape, output->form, error.message);
    if (q) {
        CHECK(q->form == output->form && q->rank == output->rank &&
                  memcmp(q->dim, output->dim, (size_t)q->rank * sizeof *q->dim) == 0,
              "%s in form %d comes back as form %d, rank %d", shape, output->form, q->form,
              q->rank);
        CHECK(memcmp(q->data, output->data, q->count * sizeof(float)) == 0,
              "%s in form %d: other numbers", shape, output->form);
    }
    srv_body_close(body);
    free(text);
}

/* Sizes around the edges of pieces, rows that pieces cut and rows that fill them. */
static void round_trips(void)
{
    enum {
        MOST = 2 * SRV_OUTPUT_PIECE + 4
    };
    static const struct {
        int rank;
        int64_t dim[SRV_RANK_MAX];
    } shapes[] = {
        {1, {1}},
        {1, {SRV_OUTPUT_PIECE - 1}},
        {1, {SRV_OUTPUT_PIECE}},
        {1, {SRV_OUTPUT_PIECE + 1}},
        {1, {MOST}},
        {2, {SRV_OUTPUT_PIECE + 1, 1}},
        {2, {1, SRV_OUTPUT_PIECE + 1}},
        {2, {2, SRV_OUTPUT_PIECE}},
        {2, {SRV_OUTPUT_PIECE / 64, 64}},
        {2, {SRV_OUTPUT_PIECE / 64 + 1, 64}},
        {3, {7, 61, 129}},
        {4, {MOST, 1, 1, 1}},
        {4, {1, 1, 1, MOST}},
        {4, {3, 5, 41, 97}},
    };
    float *data = malloc(MOST * sizeof *data);
    if (!data)
        abort();
    for (int i = 0; i < MOST; i++)
        data[i] = (float)(i * 37 % 1001 - 500) / (float)(i % 13 + 1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int form = SRV_FORM_NESTED; form <= SRV_FORM_BASE64; form++) {
            srv_output output = {data, shapes[i].rank, {0}, (srv_form)form};
            memcpy(output.dim, shapes[i].dim, sizeof output.dim);
            check_round_trip(&output);
        }
    }
    free(data);
}

/* The worst case for room: every number at its longest, a row each, four brackets deep. */
static void longest_numbers(void)
{
    enum {
        COUNT = 1000
    };
    float data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = -0.0000123456789f;
    for (int form = SRV_FORM_NESTED; form <= SRV_FORM_FLAT; form++) {
        srv_output output = {data, 4, {COUNT, 1, 1, 1}, (srv_form)form};
        check_round_trip(&output);
    }
}

static const test_case cases[] = {
    {"small texts", small_texts},
    {"round trips", round_trips},
    {"longest numbers", longest_numbers},
    {NULL, NULL},
};

int main(void)
{
    return test_main("output", cases);
}
