#include "server/codec/body.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SLICE = 1 << 16
};

/* Read a whole text from memory that ends where the contract says, `slice` bytes at a time. The
 * caller closes *body. */
static srv_body_step read_bytes(const char *text, size_t length, size_t slice, srv_body **body,
                                attn_error *error)
{
    char *copy = calloc(1, length + SRV_BODY_PADDING);
    if (!copy)
        abort();
    memcpy(copy, text, length);
    *error = (attn_error){0};
    *body = srv_body_open(copy, length);
    srv_body_step step;
    do
        step = srv_body_read(*body, slice, error);
    while (step == SRV_BODY_MORE);
    free(copy); /* borrowed only until DONE: what follows must not need it */
    return step;
}

static void check_fault(const char *text, size_t length, attn_status status, const char *param,
                        const char *message)
{
    static const size_t slices[] = {1, 3, SLICE};
    for (size_t i = 0; i < 3; i++) {
        srv_body *body;
        attn_error error;
        srv_body_step step = read_bytes(text, length, slices[i], &body, &error);
        CHECK(step == SRV_BODY_FAULT, "%.60s (slices of %zu) is accepted", text, slices[i]);
        CHECK(error.status == status, "%.60s: status %s, expected %s", text,
              attn_status_name(error.status), attn_status_name(status));
        CHECK(strcmp(error.param, param) == 0, "%.60s: param \"%s\", expected \"%s\"", text,
              error.param, param);
        CHECK(strstr(error.message, message) != NULL, "%.60s: \"%s\", expected \"%s\"", text,
              error.message, message);
        srv_body_close(body);
    }
}

typedef struct refusal {
    const char *text, *param, *message;
} refusal;

static void check_refusals(const refusal *list, size_t count, attn_status status)
{
    for (size_t i = 0; i < count; i++)
        check_fault(list[i].text, strlen(list[i].text), status, list[i].param, list[i].message);
}

#define CHECK_REFUSALS(list, status) check_refusals(list, sizeof(list) / sizeof *(list), status)

/* Tensors that are read */

typedef struct good {
    const char *text;
    srv_form form;
    int rank;
    int64_t dim[SRV_RANK_MAX];
    float first, last;
} good;

static void check_tensor(const good *expected, const srv_tensor *q)
{
    const char *text = expected->text;
    CHECK(q != NULL, "%s: no q", text);
    if (!q)
        return;
    CHECK(q->form == expected->form, "%s: form %d", text, q->form);
    CHECK(q->rank == expected->rank, "%s: rank %d", text, q->rank);
    size_t count = 1;
    for (int i = 0; i < expected->rank; i++) {
        CHECK(q->dim[i] == expected->dim[i], "%s: dim %d is %lld", text, i, (long long)q->dim[i]);
        count *= (size_t)expected->dim[i];
    }
    CHECK(q->count == count, "%s: %zu numbers", text, q->count);
    CHECK(q->data[0] == expected->first, "%s: first is %g", text, (double)q->data[0]);
    CHECK(q->data[q->count - 1] == expected->last, "%s: last is %g", text,
          (double)q->data[q->count - 1]);
}

static void reads_every_form(void)
{
    static const good list[] = {
        {"{\"q\":[7]}", SRV_FORM_NESTED, 1, {1}, 7, 7},
        {"{\"q\":[[1,2,3],[4,5,6]]}", SRV_FORM_NESTED, 2, {2, 3}, 1, 6},
        {" { \"q\" : [ [ 1 , 2 ] ,\r\n\t[ 3\n,4 ] ] } ", SRV_FORM_NESTED, 2, {2, 2}, 1, 4},
        {"{\"q\":[[[1],[2]]]}", SRV_FORM_NESTED, 3, {1, 2, 1}, 1, 2},
        {"{\"q\":[[[[1,2]]],[[[-3,1e2]]]]}", SRV_FORM_NESTED, 4, {2, 1, 1, 2}, 1, 100},
        {"{\"\\u0071\":[1,2]}", SRV_FORM_NESTED, 1, {2}, 1, 2},
        {"{\"q\":{\"shape\":[2,2],\"data\":[1,2,3,4]}}", SRV_FORM_FLAT, 2, {2, 2}, 1, 4},
        {"{\"q\":{\"data\":[1,2,3,4],\"shape\":[2,2]}}", SRV_FORM_FLAT, 2, {2, 2}, 1, 4},
        {"{\"q\":{\"shape\":[2,1],\"data\":[[1],[2]]}}", SRV_FORM_FLAT, 2, {2, 1}, 1, 2},
        {"{\"q\":{\"shape\":[1,1,1,2],\"datatype\":\"FP64\",\"d\\u0061ta\":[1,2]}}",
         SRV_FORM_FLAT,
         4,
         {1, 1, 1, 2},
         1,
         2},
        {"{\"q\":{\"shape\":[2],\"base64\":\"AACAPwAAAEA=\"}}", SRV_FORM_BASE64, 1, {2}, 1, 2},
        {"{\"q\":{\"base64\":\"ADwAwA==\",\"datatype\":\"FP16\",\"shape\":[1,2]}}",
         SRV_FORM_BASE64,
         2,
         {1, 2},
         1,
         -2},
        {"{\"q\":{\"shape\":[2],\"datatype\":\"BF16\",\"base64\":\"gD8AwA==\"}}",
         SRV_FORM_BASE64,
         1,
         {2},
         1,
         -2},
        {"{\"q\":{\"shape\":[2],\"datatype\":\"FP64\",\"base64\":\"AAAAAAAA8D8AAAAAAAAAwA==\"}}",
         SRV_FORM_BASE64,
         1,
         {2},
         1,
         -2},
        {"{\"q\":{\"shape\":[2],\"datatype\":\"BF16\",\"base64\":\"\\/z7\\u002FP\\u0067==\"}}",
         SRV_FORM_BASE64,
         1,
         {2},
         0.498046875f,
         0.498046875f},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        size_t length = strlen(list[i].text);
        for (size_t slice = 0; slice <= length; slice++) {
            srv_body *body;
            attn_error error;
            srv_body_step step = read_bytes(list[i].text, length, slice, &body, &error);
            CHECK(step == SRV_BODY_DONE, "%s: %s", list[i].text, error.message);
            if (step == SRV_BODY_DONE)
                check_tensor(&list[i], srv_body_tensor(body, "q"));
            srv_body_close(body);
        }
    }
}

static void reads_every_name(void)
{
    static const char *const names[] = {"q", "k", "v", "e", "f", "omega", "input", "key_mask"};
    static const char text[] = "{\"q\":[1],\"k\":[2],\"v\":[3],\"e\":[4],\"f\":[5],\"omega\":[6],"
                               "\"input\":[7],\"key_mask\":[8]}";
    srv_body *body;
    attn_error error;
    CHECK(read_bytes(text, sizeof text - 1, SLICE, &body, &error) == SRV_BODY_DONE, "%s",
          error.message);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const srv_tensor *tensor = srv_body_tensor(body, names[i]);
        CHECK(tensor && tensor->data[0] == (float)(i + 1), "%s", names[i]);
    }
    CHECK(!srv_body_tensor(body, "nothing"), "a name that is no tensor");
    srv_body_close(body);
}

/* Everything else comes through jansson; only top-level keys name tensors. */
static void keeps_the_other_fields(void)
{
    static const char text[] =
        "{\"causal\":true,\"q\":[1,2],\"params\":{\"q\":[1,[2],\"]}\"],\"k\":null},"
        "\"back\\u0065nd\":\"a\\\"b\",\"k\":{\"shape\":[1],\"data\":[5]},\"lengths\":[3,4]}";
    for (size_t slice = 1; slice < 8; slice++) {
        srv_body *body;
        attn_error error;
        srv_body_step step = read_bytes(text, sizeof text - 1, slice, &body, &error);
        CHECK(step == SRV_BODY_DONE, "slices of %zu: %s", slice, error.message);
        json_t *expected =
            json_loads("{\"causal\":true,\"q\":null,\"params\":{\"q\":[1,[2],\"]}\"],"
                       "\"k\":null},\"backend\":\"a\\\"b\",\"k\":null,"
                       "\"lengths\":[3,4]}",
                       0, NULL);
        CHECK(json_equal((json_t *)srv_body_fields(body), expected), "the fields differ");
        CHECK(srv_body_tensor(body, "v") == NULL, "v was never sent");
        CHECK(srv_body_read(body, 1, &error) == SRV_BODY_DONE, "done stays done");
        json_decref(expected);
        srv_body_close(body);
    }
    srv_body *body;
    attn_error error;
    CHECK(read_bytes("{}", 2, 1, &body, &error) == SRV_BODY_DONE, "an empty object");
    CHECK(json_object_size(srv_body_fields(body)) == 0, "an empty object has no fields");
    srv_body_close(body);
}

/* Refusals */

static void refuses_what_is_not_json(void)
{
    static const refusal list[] = {
        {"", "", "the end of the body"},
        {"  \n", "", "the end of the body"},
        {"hello", "", "found"},
        {"}", "", "found \"}\", expected a JSON object"},
        {"{", "", "the end of the body"},
        {"{\"q\"", "", "the end of the body"},
        {"{\"q\":", "", "the end of the body"},
        {"{\"q\":[1,2]", "", "the end of the body"},
        {"{\"q\":[1,2", "q", "q: the body ends inside it"},
        {"{\"q\":[", "q", "the body ends inside it"},
        {"{\"k\":{\"base64\":\"AAAA", "k", "the body ends inside it"},
        {"{\"q\":[1,2]}x", "", "found x, expected nothing after the object"},
        {"{\"q\":[1,2]}{}", "", "found an object"},
        {"{\"q\":[1,2]]", "", "expected ',' or '}'"},
        {"{\"q\":[1,2],}", "", "expected a key"},
        {"{,}", "", "expected a key"},
        {"{q:[1]}", "", "found q, expected a key"},
        {"{'q':[1]}", "", "expected a key"},
        {"{\"q\" [1]}", "", "expected ':'"},
        {"{\"q\":[1] \"k\":[1]}", "", "found \"k\", expected ','"},
        {"{\"q\":[1 2]}", "q[0]", "q[0]: found 2, expected ',' or ']'"},
        {"{\"q\":[1,2,]}", "q[2]", "expected an item after the comma"},
        {"{\"q\":[1}", "q[0]", "expected ',' or ']'"},
        {"{\"q\":[[1,2}}", "q[0][1]", "expected ',' or ']'"},
        {"{\"q\":[1e5x]}", "q[0]", "found x"},
        {"{\"q\":[1],\"q\":[2]}", "q", "twice"},
        {"{\"q\":[1],\"\\u0071\":[2]}", "q", "twice"},
        {"{\"q\":[1],\"q\":5}", "", "duplicate object key"},
        {"{\"q\":5,\"\\u0071\":[1]}", "", "duplicate object key"},
        {"{\"q\":[1],\"q\":{\"shape\":[1],\"base64\":\"AACAPw==\"}}", "", "duplicate object key"},
        {"{\"a\":1,\"\\u0061\":2}", "", "duplicate object key"},
        {"{\"q\":{\"shape\":[1],\"shape\":[1],\"data\":[1]}}", "", "duplicate object key"},
        {"{\"q\":{\"shape\":[1],\"data\":[1],\"data\":[1]}}", "q", "twice"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPw==\",\"base64\":\"\"}}", "q", "twice"},
        {"{\"a\":[1,}", "", "the end of the body"},
        {"{\"a\":{]}", "", "not valid JSON"},
        {"{\"a\":[1,]}", "", "not valid JSON"},
        {"{\"a\":tru}", "", "not valid JSON"},
        {"{\"a\":}", "", "not valid JSON"},
        {"{\"a\":1e309}", "", "real number overflow"},
        {"{\"a\":\"\\x\"}", "", "invalid escape"},
        {"{\"a\":\"\xff\"}", "", "not valid JSON"},
        {"{\"a\":\"\x01\"}", "", "control character"},
        {"{\"a\":\"b", "", "ends in the middle of a value"},
        {"{\"a", "", "ends in the middle of a value"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
    static const char with_nul[] = "{\"q\0\":[1]}", between[] = "{\"q\":[1\0,2]}";
    check_fault(with_nul, sizeof with_nul - 1, ATTN_MALFORMED, "", "not valid JSON");
    check_fault(between, sizeof between - 1, ATTN_MALFORMED, "q[0]", "found \"?\"");
}

static void refuses_other_documents(void)
{
    static const refusal list[] = {
        {"[]", "", "the body: found an array, expected a JSON object"},
        {"5", "", "found 5, expected a JSON object"},
        {"\"text\"", "", "found \"text\", expected a JSON object"},
        {"null", "", "found null, expected a JSON object"},
        {"{\"q\":null}", "q", "q: found null, expected nested arrays of numbers or an object"},
        {"{\"q\":\"abc\"}", "q", "q: found \"abc\", expected nested arrays"},
        {"{\"q\":true}", "q", "q: found true, expected nested arrays"},
        {"{\"q\":-1}", "q", "q: found -1, expected nested arrays"},
        {"{\"q\":1e300}", "q", "q: found a fractional number, expected nested arrays"},
        {"{\"q\":{\"0\":1}}", "q", "q: unknown key \"0\"; a tensor has shape"},
        {"{\"q\":{}}", "q", "data or base64 is missing"},
    };
    CHECK_REFUSALS(list, ATTN_INVALID);
}

static void refuses_wrong_entries(void)
{
    static const refusal list[] = {
        {"{\"q\":[\"abc\"]}", "q[0]", "q[0]: found \"abc\", expected a number"},
        {"{\"q\":[[1,2],[3,\"x\"]]}", "q[1][1]", "q[1][1]: found \"x\", expected a number"},
        {"{\"q\":[1,null]}", "q[1]", "q[1]: found null, expected a number"},
        {"{\"q\":[true]}", "q[0]", "found true"},
        {"{\"q\":[1,NaN]}", "q[1]", "found NaN, expected a number"},
        {"{\"q\":[1, Infinity]}", "q[1]", "found Infinity"},
        {"{\"q\":[-Infinity]}", "q[0]", "found -Infinity"},
        {"{\"q\":[1,{\"a\":1}]}", "q[1]", "found an object"},
        {"{\"q\":[01]}", "q[0]", "found 01"},
        {"{\"q\":[1,+1]}", "q[1]", "found +1"},
        {"{\"q\":[.5]}", "q[0]", "found .5"},
        {"{\"q\":[1.]}", "q[0]", "found 1."},
        {"{\"q\":[[1,2,1e39]]}", "q[0][2]", "q[0][2]: 1e39 is beyond float32"},
        {"{\"q\":[-1e39]}", "q[0]", "-1e39 is beyond float32"},
        {"{\"q\":[3.4028236e38]}", "q[0]", "beyond float32"},
        {"{\"q\":[1e308]}", "q[0]", "beyond float32"},
        {"{\"q\":[1e309]}", "q[0]", "beyond float32"},
        {"{\"q\":{\"shape\":[2],\"data\":[1,\"a\"]}}", "q.data[1]", "found \"a\""},
        {"{\"q\":[\"\x01\x1b[31mred\xff\"]}", "q[0]", "found \"??[31mred?\""},
        {"{\"q\":[\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}", "q[0]",
         "found \"aaaaaaaaaaaaaaaaaaaaaaaa...\","},
        {"{\"q\":[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]}", "q[0]",
         "found aaaaaaaaaaaaaaaaaaaaaaaa...,"},
    };
    CHECK_REFUSALS(list, ATTN_INVALID);
}

static void refuses_odd_shapes(void)
{
    static const refusal list[] = {
        {"{\"q\":[[1,2],[3]]}", "q[1]", "q[1] has 1 number, expected 2 as in q[0]"},
        {"{\"q\":[[1],[2,3]]}", "q[1]", "q[1] has more than 1 number, expected 1 as in q[0]"},
        {"{\"q\":[[1,2],[3,4 ,5]]}", "q[1]", "q[1] has more than 2 numbers"},
        {"{\"q\":[[[1],[2]],[[3]]]}", "q[1]", "q[1] has 1 array, expected 2 as in q[0]"},
        {"{\"q\":[[[1],[2]],[[3],[4],[5]]]}", "q[1]", "q[1] has more than 2 arrays"},
        {"{\"q\":[[[1,2]],[[3]]]}", "q[1][0]", "q[1][0] has 1 number, expected 2 as in q[0][0]"},
        {"{\"q\":[1,[2]]}", "q[1]", "q[1]: found an array, expected a number"},
        {"{\"q\":[[1],2]}", "q[1]", "q[1]: found 2, expected an array"},
        {"{\"q\":[[1],null]}", "q[1]", "q[1]: found null, expected an array"},
        {"{\"q\":[[[[[1]]]]]}", "q[0][0][0][0]", "nested deeper than 4 arrays"},
        {"{\"q\":[]}", "q", "q: found an empty array"},
        {"{\"q\":[[]]}", "q[0]", "found an empty array"},
        {"{\"q\":[[1],[]]}", "q[1]", "found an empty array"},
        {"{\"q\":{\"shape\":[1],\"data\":[]}}", "q.data", "found an empty array"},
    };
    CHECK_REFUSALS(list, ATTN_INVALID);
}

#define DATA "\"data\":[1,2,3,4]"

static void refuses_what_disagrees_with_the_shape(void)
{
    static const refusal list[] = {
        {"{\"q\":{\"shape\":[2,3],\"data\":[1,2,3,4,5]}}", "q",
         "q has 5 numbers, its shape [2,3] needs 6"},
        {"{\"q\":{\"shape\":[2,3],\"data\":[1,2,3,4,5,6,7]}}", "q",
         "q has 7 numbers, its shape [2,3] needs 6"},
        {"{\"q\":{\"shape\":[3,2],\"data\":[[1,2,3],[4,5,6]]}}", "q",
         "the data is nested as [2,3], its shape is [3,2]"},
        {"{\"q\":{\"shape\":[6],\"data\":[[1,2,3],[4,5,6]]}}", "q", "nested as [2,3]"},
        {"{\"q\":{\"shape\":[-1,8]," DATA "}}", "q.shape[0]", "found -1, expected a whole number"},
        {"{\"q\":{\"shape\":[0,8]," DATA "}}", "q.shape[0]", "found 0"},
        {"{\"q\":{\"shape\":[8589934592,8589934592]," DATA "}}", "q.shape", "can be counted"},
        {"{\"q\":{\"shape\":[4294967296,1]," DATA "}}", "q",
         "q has 4 numbers, its shape [4294967296,1] needs 4294967296"},
        {"{\"q\":{\"shape\":[1.5,2]," DATA "}}", "q.shape[0]", "found a fractional number"},
        {"{\"q\":{\"shape\":[2.0,2]," DATA "}}", "q.shape[0]", "found a fractional number"},
        {"{\"q\":{\"shape\":[\"2\",2]," DATA "}}", "q.shape[0]", "found \"2\""},
        {"{\"q\":{\"shape\":[2,null]," DATA "}}", "q.shape[1]", "found null"},
        {"{\"q\":{\"shape\":[]," DATA "}}", "q.shape", "expected 1 to 4 dimensions"},
        {"{\"q\":{\"shape\":[1,1,1,1,4]," DATA "}}", "q.shape", "expected 1 to 4 dimensions"},
        {"{\"q\":{\"shape\":4," DATA "}}", "q.shape", "found 4, expected an array"},
        {"{\"q\":{" DATA "}}", "q", "q: shape is missing"},
        {"{\"q\":{\"shape\":[4]}}", "q", "data or base64 is missing"},
        {"{\"q\":{\"shape\":[4],\"data\":5}}", "q.data", "found 5, expected an array of numbers"},
        {"{\"q\":{\"shape\":[4],\"data\":null}}", "q.data", "found null"},
        {"{\"q\":{\"shape\":[4],\"base64\":[1]}}", "q.base64", "found an array, expected a string"},
        {"{\"q\":{\"shape\":[4],\"base64\":null}}", "q.base64", "found null"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPw==\",\"data\":[1]}}", "q",
         "has both data and base64"},
        {"{\"q\":{\"shape\":[4],\"datatype\":\"INT8\"," DATA "}}", "q.datatype",
         "found \"INT8\", expected FP32, FP16, BF16 or FP64"},
        {"{\"q\":{\"shape\":[4],\"datatype\":32," DATA "}}", "q.datatype", "found 32"},
        {"{\"q\":{\"shape\":[4],\"dims\":1," DATA "}}", "q", "unknown key \"dims\""},
        {"{\"q\":{\"shape\":[4],\"\xc3\xa9\":1," DATA "}}", "q", "unknown key \"??\""},
    };
    CHECK_REFUSALS(list, ATTN_INVALID);
}

static void refuses_wrong_base64(void)
{
    static const refusal list[] = {
        {"{\"q\":{\"shape\":[2],\"base64\":\"AACAPw==\"}}", "q.base64",
         "has 4 bytes, its shape [2] needs 2 numbers of 4 bytes (FP32)"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPwA=\"}}", "q.base64", "has 5 bytes"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"\"}}", "q.base64", "has 0 bytes"},
        {"{\"q\":{\"shape\":[4611686018427387904],\"base64\":\"\"}}", "q.base64", "has 0 bytes"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPw=\"}}", "q.base64", "ends inside a group"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPw\"}}", "q.base64", "is padding missing"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AAC APw==\"}}", "q.base64",
         "found \" \" at character 3"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPx==\"}}", "q.base64", "at character 6"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACA\\nPw==\"}}", "q.base64", "at character 4"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACA\\u0150w==\"}}", "q.base64", "at character 4"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACA\\u00\"}}", "q.base64", "at character 4"},
        {"{\"q\":{\"shape\":[1],\"base64\":\"AACAPw==AAAA\"}}", "q.base64", "at character 8"},
        {"{\"q\":{\"shape\":[1,2],\"base64\":\"AACAPwAAwH8=\"}}", "q[0][1]", "found a NaN"},
        {"{\"q\":{\"shape\":[2,1],\"datatype\":\"FP16\",\"base64\":\"ADwAfA==\"}}", "q[1][0]",
         "an infinity"},
        {"{\"q\":{\"shape\":[1],\"datatype\":\"BF16\",\"base64\":\"gP8=\"}}", "q[0]",
         "an infinity"},
        {"{\"q\":{\"shape\":[1],\"datatype\":\"FP64\",\"base64\":\"nHUAiDzkN34=\"}}", "q[0]",
         "beyond float32"},
    };
    CHECK_REFUSALS(list, ATTN_INVALID);
}

static void tiny_numbers_become_zero(void)
{
    static const char text[] = "{\"q\":[1e-46,1e-400,-1e-400,1e-45,3.4028235e38]}";
    srv_body *body;
    attn_error error;
    CHECK(read_bytes(text, sizeof text - 1, SLICE, &body, &error) == SRV_BODY_DONE, "%s",
          error.message);
    const srv_tensor *q = srv_body_tensor(body, "q");
    static const float expected[] = {0.0f, 0.0f, -0.0f, 0x1p-149f, 0x1.fffffep127f};
    CHECK(q && memcmp(q->data, expected, sizeof expected) == 0, "the numbers differ");
    srv_body_close(body);
}

/* Hostile sizes */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* `head`, then `count` times `unit`, then `tail`: refused in well under a second. */
static void check_flood(const char *head, const char *unit, size_t count, const char *tail,
                        attn_status status, const char *message)
{
    size_t length = strlen(head) + strlen(unit) * count + strlen(tail);
    char *text = malloc(length + 1);
    if (!text)
        abort();
    char *to = stpcpy(text, head);
    for (size_t i = 0; i < count; i++)
        to = stpcpy(to, unit);
    strcpy(to, tail);
    srv_body *body;
    attn_error error;
    double start = seconds();
    srv_body_step step = read_bytes(text, length, SLICE, &body, &error);
    double took = seconds() - start;
    CHECK(step == SRV_BODY_FAULT && error.status == status && strstr(error.message, message),
          "%s%s x %zu: %s", head, unit, count, error.message);
    CHECK(took < 1, "%s%s x %zu took %.2f s", head, unit, count, took);
    srv_body_close(body);
    free(text);
}

static void floods(void)
{
    enum {
        MANY = 5000000
    };
    check_flood("", "[", MANY, "", ATTN_INVALID, "found an array");
    check_flood("{\"q\":", "[", 1000, "", ATTN_INVALID, "deeper than 4");
    check_flood("{\"q\":", "[", MANY, "", ATTN_INVALID, "deeper than 4");
    check_flood("{\"a\":", "[", MANY, "", ATTN_INVALID, "exceed 262144 bytes");
    check_flood("{\"a\":", "[", 2049, "", ATTN_MALFORMED, "the middle of a value");
    check_flood("{\"a\":\"", "x", MANY, "\"}", ATTN_INVALID, "exceed 262144 bytes");
    check_flood("{\"", "x", MANY, "\":1}", ATTN_INVALID, "exceed 262144 bytes");
    check_flood("{\"a\":[0", ",[]", 500000, "]}", ATTN_INVALID, "exceed 262144 bytes");
    check_flood("{\"a\":0", ",\"b\":1", 30000, "}", ATTN_MALFORMED, "duplicate object key");
    check_flood("{\"q\":[", " ", MANY, "", ATTN_MALFORMED, "the body ends inside it");
    check_flood("{", " ", MANY, "", ATTN_MALFORMED, "the end of the body");
    check_flood("{\"q\":[0.", "1", MANY, "]}", ATTN_INVALID, "longer than 4096 characters");
    check_flood("{\"q\":[0", ",1", MANY, "", ATTN_MALFORMED, "the body ends inside it");
    check_flood("{\"q\":{\"shape\":[1],\"base64\":\"", "AAAA", MANY / 4, "\"}}", ATTN_INVALID,
                "its shape [1] needs 1 number");
}

/* jansson's own limit of 2048 levels holds for what is left to it. */
static void depth_of_other_fields(void)
{
    for (int depth = 2046; depth <= 2049; depth++) {
        char text[5000] = "{\"a\":", *to = text + strlen(text);
        memset(to, '[', (size_t)depth);
        memset(to + depth, ']', (size_t)depth);
        strcpy(to + 2 * depth, "}");
        srv_body *body;
        attn_error error;
        srv_body_step step = read_bytes(text, strlen(text), SLICE, &body, &error);
        CHECK((step == SRV_BODY_DONE) == (depth < 2048), "depth %d: step %d, %s", depth, step,
              error.message);
        srv_body_close(body);
    }
}

/* A slice does a bounded piece of work: a long text needs about as many reads as it has slices, in
 * the scan and in the conversion after it. */
static void slices_are_even(void)
{
    enum {
        COUNT = 300000,
        BYTES = 1000
    };
    char *text = malloc(COUNT * 4 + 100);
    if (!text)
        abort();
    char *to = stpcpy(text, "{\"q\":{\"datatype\":\"FP16\",\"shape\":[300000],\"base64\":\"");
    memset(to, 'A', COUNT * 8 / 3);
    strcpy(to + COUNT * 8 / 3, "\"}}");
    size_t length = strlen(text), reads = 0;
    char *padded = calloc(1, length + SRV_BODY_PADDING);
    if (!padded)
        abort();
    memcpy(padded, text, length);
    srv_body *body = srv_body_open(padded, length);
    attn_error error = {0};
    while (srv_body_read(body, BYTES, &error) == SRV_BODY_MORE)
        reads++;
    CHECK(srv_body_tensor(body, "q") != NULL, "%s", error.message);
    size_t expected = length / BYTES + COUNT * 2 / BYTES;
    CHECK(reads > expected * 9 / 10 && reads < expected * 11 / 10, "%zu reads, expected about %zu",
          reads, expected);
    srv_body_close(body);
    free(padded);
    free(text);
}

static const test_case cases[] = {
    {"reads every form", reads_every_form},
    {"reads every name", reads_every_name},
    {"keeps the other fields", keeps_the_other_fields},
    {"refuses what is not JSON", refuses_what_is_not_json},
    {"refuses other documents", refuses_other_documents},
    {"refuses wrong entries", refuses_wrong_entries},
    {"refuses odd shapes", refuses_odd_shapes},
    {"refuses what disagrees with the shape", refuses_what_disagrees_with_the_shape},
    {"refuses wrong base64", refuses_wrong_base64},
    {"tiny numbers become zero", tiny_numbers_become_zero},
    {"floods", floods},
    {"depth of other fields", depth_of_other_fields},
    {"slices are even", slices_are_even},
    {NULL, NULL},
};

int main(void)
{
    return test_main("body", cases);
}
