/* Tensors and masks that belong together, and every way in which they do not. */
#include "server/attend/call.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request in short: sizes that end at the first 0, and the JSON of everything else. */
typedef struct request {
    int64_t q[5], k[5], v[5], mask[5];
    const char *options;
} request;

enum {
    KEYS = 64 /* entries of the largest mask here */
};

static int rank_of(const int64_t *dim)
{
    int rank = 0;
    while (dim[rank])
        rank++;
    return rank;
}

static srv_tensor tensor_of(const int64_t *dim, float *data)
{
    srv_tensor tensor = {.data = data, .count = 1, .rank = rank_of(dim)};
    for (int i = 0; i < tensor.rank; i++) {
        tensor.dim[i] = dim[i];
        tensor.count *= (size_t)dim[i];
    }
    return tensor;
}

/* A request that was read; the call borrows from the options, which borrow from the document. */
typedef struct reading {
    json_t *document;
    srv_options options;
    srv_call call;
    attn_error error;
    attn_status status;
} reading;

static void open_reading(reading *r, const char *options)
{
    const char *text = options ? options : "{}";
    *r = (reading){.document = json_loads(text, 0, NULL)};
    if (!r->document || srv_options_read(&r->options, r->document, SRV_FOR_ATTEND | SRV_FOR_PLAN,
                                         &r->error) != ATTN_OK) {
        printf("%s: %s\n", text, r->error.message);
        abort();
    }
}

static void close_reading(reading *r)
{
    srv_call_free(&r->call);
    srv_options_free(&r->options);
    json_decref(r->document);
}

/* Only the mask's numbers are read, so q, k and v have none. */
static void read_request(reading *r, const request *sent, float *mask_data)
{
    srv_tensor q = tensor_of(sent->q, NULL), k = tensor_of(sent->k, NULL),
               v = tensor_of(sent->v, NULL), mask = tensor_of(sent->mask, mask_data);
    const srv_inputs inputs = {
        .q = q.rank ? &q : NULL,
        .k = k.rank ? &k : NULL,
        .v = v.rank ? &v : NULL,
        .key_mask = mask.rank ? &mask : NULL,
    };
    open_reading(r, sent->options);
    r->status = srv_call_read(&r->call, &inputs, &r->options, &r->error);
}

static void check_shape(const char *context, const attn_shape *found, const attn_shape *expected)
{
    const int64_t a[] = {found->batch, found->heads, found->kv_heads, found->n,
                         found->m,     found->d,     found->dv};
    const int64_t b[] = {expected->batch, expected->heads, expected->kv_heads, expected->n,
                         expected->m,     expected->d,     expected->dv};
    static const char *const names[] = {"batch", "heads", "kv_heads", "n", "m", "d", "dv"};
    for (int i = 0; i < 7; i++)
        CHECK(a[i] == b[i], "%s: %s is %lld, expected %lld", context, names[i], (long long)a[i],
              (long long)b[i]);
}

/* Sizes */

static void every_rank_is_read(void)
{
    static const struct {
        request request;
        attn_shape shape;
    } list[] = {
        {{.q = {5, 3}, .k = {7, 3}, .v = {7, 2}}, {1, 1, 1, 5, 7, 3, 2}},
        {{.q = {1, 1}, .k = {1, 1}, .v = {1, 1}}, {1, 1, 1, 1, 1, 1, 1}},
        {{.q = {6, 5, 3}, .k = {2, 7, 3}, .v = {2, 7, 9}}, {1, 6, 2, 5, 7, 3, 9}},
        {{.q = {4, 6, 5, 3}, .k = {4, 6, 7, 3}, .v = {4, 6, 7, 3}}, {4, 6, 6, 5, 7, 3, 3}},
        {{.q = {4, 6, 5, 3}, .k = {4, 1, 7, 3}, .v = {4, 1, 7, 8}}, {4, 6, 1, 5, 7, 3, 8}},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char context[16];
        reading r;
        snprintf(context, sizeof context, "case %zu", i);
        read_request(&r, &list[i].request, NULL);
        CHECK(r.status == ATTN_OK, "%s: %s", context, r.error.message);
        check_shape(context, &r.call.shape, &list[i].shape);
        CHECK(r.call.rank == rank_of(list[i].request.q), "%s: rank %d", context, r.call.rank);
        CHECK(r.call.longest == list[i].shape.m, "%s: longest %lld", context,
              (long long)r.call.longest);
        CHECK(!r.call.params.mask.lengths && !r.call.params.mask.key_mask && !r.call.key_mask,
              "%s: masks out of nowhere", context);
        close_reading(&r);
    }
}

typedef struct refusal {
    request request;
    const char *param, *message;
} refusal;

static void check_refusals(const refusal *list, size_t count)
{
    float ones[KEYS];
    for (int i = 0; i < KEYS; i++)
        ones[i] = 1;
    for (size_t i = 0; i < count; i++) {
        reading r;
        read_request(&r, &list[i].request, ones);
        CHECK(r.status == ATTN_INVALID && r.error.status == ATTN_INVALID,
              "expected \"%s\", got status %s", list[i].message, attn_status_name(r.status));
        CHECK(strcmp(r.error.param, list[i].param) == 0, "%s: param \"%s\", expected \"%s\"",
              list[i].message, r.error.param, list[i].param);
        CHECK(strstr(r.error.message, list[i].message) != NULL, "\"%s\", expected \"%s\"",
              r.error.message, list[i].message);
        close_reading(&r);
    }
}

static void tensors_that_are_missing_or_flat(void)
{
    static const refusal list[] = {
        {{.k = {7, 3}, .v = {7, 2}}, "q", "q is missing"},
        {{.q = {5, 3}, .v = {7, 2}}, "k", "k is missing"},
        {{.q = {5, 3}, .k = {7, 3}}, "v", "v is missing"},
        {{.options = "{}"}, "q", "q is missing"},
        {{.q = {5}, .k = {7, 3}, .v = {7, 2}}, "q", "q has rank 1, expected [n,d]"},
        {{.q = {5, 3}, .k = {3}, .v = {7, 2}}, "k", "k has rank 1, expected [n,d]"},
        {{.q = {5, 3}, .k = {7, 3}, .v = {7}}, "v", "v has rank 1, expected [n,d]"},
        {{.q = {5, 3}, .k = {1, 7, 3}, .v = {1, 7, 2}}, "k", "k has rank 3 but q has rank 2"},
        {{.q = {5, 3}, .k = {7, 3}, .v = {1, 7, 2}}, "v", "v has rank 3 but q has rank 2"},
        {{.q = {1, 1, 5, 3}, .k = {7, 3}, .v = {7, 2}}, "k", "k has rank 2 but q has rank 4"},
    };
    check_refusals(list, sizeof list / sizeof *list);
}

static void sizes_that_differ(void)
{
    static const refusal list[] = {
        {{.q = {2, 1, 5, 3}, .k = {3, 1, 7, 3}, .v = {2, 1, 7, 2}},
         "k",
         "k has 3 batch rows but q has 2"},
        {{.q = {2, 1, 5, 3}, .k = {2, 1, 7, 3}, .v = {1, 1, 7, 2}},
         "v",
         "v has 1 batch row but q has 2"},
        {{.q = {4, 5, 3}, .k = {2, 7, 3}, .v = {4, 7, 2}}, "v", "v has 4 heads but k has 2"},
        {{.q = {5, 3}, .k = {7, 3}, .v = {8, 2}}, "v", "v has 8 rows but k has 7"},
        {{.q = {5, 3}, .k = {7, 4}, .v = {7, 2}}, "k", "k has 4 columns but q has 3"},
        {{.q = {5, 3}, .k = {3, 7}, .v = {7, 2}}, "v", "v has 7 rows but k has 3"},
    };
    check_refusals(list, sizeof list / sizeof *list);
}

static void an_input_needs_a_model(void)
{
    const int64_t dim[] = {4, 8, 0};
    srv_tensor input = tensor_of(dim, NULL);
    for (int with_q = 0; with_q < 2; with_q++) {
        const srv_inputs inputs = {.input = &input, .q = with_q ? &input : NULL};
        reading r;
        open_reading(&r, NULL);
        r.status = srv_call_read(&r.call, &inputs, &r.options, &r.error);
        CHECK(r.status == ATTN_INVALID && strcmp(r.error.param, "input") == 0, "%s: %s",
              r.error.param, r.error.message);
        close_reading(&r);
    }
}

static void a_shape_beside_tensors_is_refused(void)
{
    static const char *const members[] = {"n", "m", "heads", "kv_heads", "d", "dv", "batch"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char options[40];
        snprintf(options, sizeof options, "{\"shape\":{\"%s\":5}}", members[i]);
        const refusal refused = {{.q = {5, 3}, .k = {5, 3}, .v = {5, 3}, .options = options},
                                 "shape",
                                 "shape and tensors are both given"};
        check_refusals(&refused, 1);
    }
}

/* Scale and causality */

static void scalars_are_the_clients_or_the_default(void)
{
    static const struct {
        const char *options;
        float scale;
        bool causal;
    } list[] = {
        {"{}", 0.5f, false},
        {"{\"causal\":true}", 0.5f, true},
        {"{\"causal\":false,\"scale\":2}", 2, false},
        {"{\"scale\":-0.25}", -0.25f, false},
        {"{\"scale\":0.1}", 0.1f, false},
        {"{\"scale\":3.4028235e38}", 3.40282347e38f, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const request sent = {.q = {5, 4}, .k = {7, 4}, .v = {7, 2}, .options = list[i].options};
        reading r;
        read_request(&r, &sent, NULL);
        float scale = r.call.params.scale;
        CHECK(r.status == ATTN_OK, "%s: %s", list[i].options, r.error.message);
        CHECK(scale >= list[i].scale && scale <= list[i].scale, "%s: scale is %.9g",
              list[i].options, (double)scale);
        CHECK(r.call.params.mask.causal == list[i].causal, "%s: causal", list[i].options);
        close_reading(&r);
    }
}

/* Lengths */

#define THREE_ROWS .q = {3, 1, 5, 4}, .k = {3, 1, 7, 4}, .v = {3, 1, 7, 2}

static void the_longest_row_counts(void)
{
    static const struct {
        const char *options;
        int64_t longest;
    } list[] = {
        {"{}", 7},
        {"{\"lengths\":[7,7,7]}", 7},
        {"{\"lengths\":[1,6,2]}", 6},
        {"{\"lengths\":[5,0,0]}", 5},
        {"{\"lengths\":[0,0,3]}", 3},
        {"{\"lengths\":[0,0,0]}", 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const request sent = {THREE_ROWS, .options = list[i].options};
        reading r;
        read_request(&r, &sent, NULL);
        CHECK(r.status == ATTN_OK, "%s: %s", list[i].options, r.error.message);
        CHECK(r.call.longest == list[i].longest, "%s: longest is %lld", list[i].options,
              (long long)r.call.longest);
        CHECK(r.call.params.mask.lengths == r.options.values[SRV_FIELD_LENGTHS].integers.data,
              "%s: the options' lengths are borrowed", list[i].options);
        close_reading(&r);
    }
}

static void lengths_go_with_batch_rows(void)
{
    static const refusal list[] = {
        {{THREE_ROWS, .options = "{\"lengths\":[]}"}, "lengths", "lengths has 0 entries"},
        {{THREE_ROWS, .options = "{\"lengths\":[1,2]}"}, "lengths", "lengths has 2 entries"},
        {{THREE_ROWS, .options = "{\"lengths\":[1,2,3,4]}"},
         "lengths",
         "lengths has 4 entries, expected one for each of the 3 batch rows"},
        {{.q = {5, 4}, .k = {7, 4}, .v = {7, 2}, .options = "{\"lengths\":[1,2]}"},
         "lengths",
         "the 1 batch rows"},
        {{THREE_ROWS, .mask = {7}, .options = "{\"lengths\":[1,2,3]}"},
         "key_mask",
         "key_mask and lengths are both given"},
    };
    check_refusals(list, sizeof list / sizeof *list);
}

/* Key masks */

static void masks_of_both_shapes_are_read(void)
{
    static const request list[] = {
        {THREE_ROWS, .mask = {7}},
        {THREE_ROWS, .mask = {3, 7}},
        {.q = {5, 4}, .k = {7, 4}, .v = {7, 2}, .mask = {7}},
        {.q = {5, 4}, .k = {7, 4}, .v = {7, 2}, .mask = {1, 7}},
    };
    float data[KEYS];
    for (int i = 0; i < KEYS; i++)
        data[i] = i % 3 == 1 ? 1 : i % 2 ? -0.0f : 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        reading r;
        read_request(&r, &list[i], data);
        bool shared = rank_of(list[i].mask) == 1;
        CHECK(r.status == ATTN_OK, "case %zu: %s", i, r.error.message);
        CHECK(r.call.params.mask.key_mask == r.call.key_mask && r.call.key_mask, "case %zu", i);
        for (int64_t b = 0; r.call.key_mask && b < r.call.shape.batch; b++)
            for (int64_t j = 0; j < 7; j++)
                CHECK(r.call.key_mask[b * 7 + j] == ((shared ? j : b * 7 + j) % 3 == 1),
                      "case %zu: key %lld of row %lld is %d", i, (long long)j, (long long)b,
                      r.call.key_mask[b * 7 + j]);
        close_reading(&r);
    }
}

static void masks_of_other_shapes_are_refused(void)
{
    static const refusal list[] = {
        {{THREE_ROWS, .mask = {6}}, "key_mask", "key_mask is [6], expected [7] or [3,7]"},
        {{THREE_ROWS, .mask = {8}}, "key_mask", "key_mask is [8], expected"},
        {{THREE_ROWS, .mask = {21}}, "key_mask", "key_mask is [21], expected"},
        {{THREE_ROWS, .mask = {1, 7}}, "key_mask", "key_mask is [1,7], expected"},
        {{THREE_ROWS, .mask = {7, 3}}, "key_mask", "key_mask is [7,3], expected"},
        {{THREE_ROWS, .mask = {3, 5}}, "key_mask", "key_mask is [3,5], expected"},
        {{THREE_ROWS, .mask = {3, 1, 7}}, "key_mask", "key_mask is [3,1,7], expected"},
        {{.q = {2, 5, 4}, .k = {2, 7, 4}, .v = {2, 7, 2}, .mask = {2, 7}},
         "key_mask",
         "key_mask is [2,7], expected [7] or [1,7]"},
    };
    check_refusals(list, sizeof list / sizeof *list);
}

static void mask_entries_are_0_or_1(void)
{
    static const float wrong[] = {2, -1, 0.5f, 1.0000001f, 1e-45f, 1e38f};
    static const struct {
        request request;
        int at;
        const char *param;
    } list[] = {
        {{THREE_ROWS, .mask = {7}}, 0, "key_mask[0]"},
        {{THREE_ROWS, .mask = {7}}, 6, "key_mask[6]"},
        {{THREE_ROWS, .mask = {3, 7}}, 0, "key_mask[0][0]"},
        {{THREE_ROWS, .mask = {3, 7}}, 20, "key_mask[2][6]"},
        {{THREE_ROWS, .mask = {3, 7}}, 9, "key_mask[1][2]"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            float data[KEYS] = {0};
            reading r;
            data[list[i].at] = wrong[w];
            read_request(&r, &list[i].request, data);
            CHECK(r.status == ATTN_INVALID, "%s = %g is accepted", list[i].param, (double)wrong[w]);
            CHECK(strcmp(r.error.param, list[i].param) == 0, "%s is called %s", list[i].param,
                  r.error.param);
            CHECK(strstr(r.error.message, "expected 0 or 1") != NULL, "%s", r.error.message);
            close_reading(&r);
        }
    }
}

/* Sizes alone */

static void a_shape_alone_is_a_call(void)
{
    static const struct {
        const char *options;
        attn_shape shape;
        int64_t longest;
        float scale;
        bool causal;
    } list[] = {
        {"{\"shape\":{\"n\":8192}}", {1, 1, 1, 8192, 8192, 64, 64}, 8192, 0.125f, false},
        {"{\"shape\":{\"n\":3,\"m\":9}}", {1, 1, 1, 3, 9, 64, 64}, 9, 0.125f, false},
        {"{\"shape\":{\"n\":3,\"heads\":8},\"causal\":true}",
         {1, 8, 8, 3, 3, 64, 64},
         3,
         0.125f,
         true},
        {"{\"shape\":{\"n\":3,\"d\":16},\"scale\":3}", {1, 1, 1, 3, 3, 16, 16}, 3, 3, false},
        {"{\"shape\":{\"n\":1,\"m\":2,\"heads\":6,\"kv_heads\":3,\"d\":4,\"dv\":5,\"batch\":7}}",
         {7, 6, 3, 1, 2, 4, 5},
         2,
         0.5f,
         false},
        {"{\"shape\":{\"n\":9,\"batch\":2},\"lengths\":[4,0]}",
         {2, 1, 1, 9, 9, 64, 64},
         4,
         0.125f,
         false},
        {"{\"shape\":{\"n\":2147483647,\"batch\":2147483647,\"heads\":2147483647}}",
         {2147483647, 2147483647, 2147483647, 2147483647, 2147483647, 64, 64},
         2147483647,
         0.125f,
         false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        reading r;
        open_reading(&r, list[i].options);
        r.status = srv_call_from_shape(&r.call, &(srv_inputs){0}, &r.options, &r.error);
        float scale = r.call.params.scale;
        CHECK(r.status == ATTN_OK, "%s: %s", list[i].options, r.error.message);
        check_shape(list[i].options, &r.call.shape, &list[i].shape);
        CHECK(r.call.longest == list[i].longest, "%s: longest is %lld", list[i].options,
              (long long)r.call.longest);
        CHECK(scale >= list[i].scale && scale <= list[i].scale, "%s: scale is %.9g",
              list[i].options, (double)scale);
        CHECK(r.call.params.mask.causal == list[i].causal, "%s: causal", list[i].options);
        close_reading(&r);
    }
}

static void a_shape_needs_n(void)
{
    static const struct {
        const char *options, *param, *message;
    } list[] = {
        {"{}", "shape.n", "shape.n is missing"},
        {"{\"shape\":{}}", "shape.n", "shape.n is missing"},
        {"{\"shape\":{\"m\":5}}", "shape.n", "shape.n is missing"},
        {"{\"shape\":{\"n\":5},\"lengths\":[1,2]}", "lengths", "lengths has 2 entries"},
        {"{\"shape\":{\"n\":5,\"batch\":2},\"lengths\":[]}", "lengths", "lengths has 0 entries"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        reading r;
        open_reading(&r, list[i].options);
        r.status = srv_call_from_shape(&r.call, &(srv_inputs){0}, &r.options, &r.error);
        CHECK(r.status == ATTN_INVALID && strcmp(r.error.param, list[i].param) == 0 &&
                  strstr(r.error.message, list[i].message),
              "%s: %s: \"%s\"", list[i].options, r.error.param, r.error.message);
        close_reading(&r);
    }
}

static const test_case cases[] = {
    {"every rank is read", every_rank_is_read},
    {"tensors that are missing or flat", tensors_that_are_missing_or_flat},
    {"sizes that differ", sizes_that_differ},
    {"an input needs a model", an_input_needs_a_model},
    {"a shape beside tensors is refused", a_shape_beside_tensors_is_refused},
    {"scalars are the client's or the default", scalars_are_the_clients_or_the_default},
    {"the longest row counts", the_longest_row_counts},
    {"lengths go with batch rows", lengths_go_with_batch_rows},
    {"masks of both shapes are read", masks_of_both_shapes_are_read},
    {"masks of other shapes are refused", masks_of_other_shapes_are_refused},
    {"mask entries are 0 or 1", mask_entries_are_0_or_1},
    {"a shape alone is a call", a_shape_alone_is_a_call},
    {"a shape needs n", a_shape_needs_n},
    {NULL, NULL},
};

int main(void)
{
    return test_main("call", cases);
}
