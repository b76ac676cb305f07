/* safetensors headers that must be refused: each with its own sentence, at once. */
#include "attn/safetensors.h"
#include "tests/support/stored.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PREFIX = ATTN_SAFETENSORS_PREFIX
};

static attn_safetensors *open_text(stored_text made, attn_error *error)
{
    *error = (attn_error){0};
    return attn_safetensors_open(made.bytes, made.size, "the body", error);
}

/* The text is refused with this status and param, and the sentence has `part`. */
static void check_refused(stored_text made, const char *label, attn_status status,
                          const char *param, const char *part)
{
    attn_error error;
    attn_safetensors *file = open_text(made, &error);
    CHECK(file == NULL, "%.80s is accepted", label);
    CHECK(error.status == status, "%.80s: status %s, expected %s", label,
          attn_status_name(error.status), attn_status_name(status));
    CHECK(strcmp(error.param, param) == 0, "%.80s: param \"%s\", expected \"%s\"", label,
          error.param, param);
    CHECK(strncmp(error.message, "the body: ", 10) == 0, "%.80s: \"%s\"", label, error.message);
    CHECK(strstr(error.message, part) != NULL, "%.80s: \"%s\", expected \"%s\"", label,
          error.message, part);
    for (const char *c = error.message; *c; c++)
        CHECK(*c >= ' ' && *c <= '~', "%.80s: byte %d in the message", label, *c);
    attn_safetensors_close(file);
    free(made.bytes);
}

typedef struct refusal {
    const char *header;
    size_t data_bytes;
    const char *param, *part;
} refusal;

static void check_refusals(const refusal *list, size_t count, attn_status status)
{
    for (size_t i = 0; i < count; i++)
        check_refused(stored_text_make(list[i].header, strlen(list[i].header), list[i].data_bytes),
                      list[i].header, status, list[i].param, list[i].part);
}

#define CHECK_REFUSALS(list, status) check_refusals(list, sizeof(list) / sizeof *(list), status)

/* One entry, as string literals. */
#define ENTRY(name, type, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

/* Around the header */

static void lengths(void)
{
    static const struct {
        uint64_t claimed;
        const char *part;
    } list[] = {
        {0, "the header is empty"},
        {3, "claims 3 bytes, but only 2 follow"},
        {ATTN_SAFETENSORS_HEADER_MAX, "claims 100000000 bytes, but only 2 follow"},
        {ATTN_SAFETENSORS_HEADER_MAX + 1, "claims 100000001 bytes, more than the 100000000"},
        {(uint64_t)1 << 63, "claims 9223372036854775808 bytes, more than"},
        {UINT64_MAX, "claims 18446744073709551615 bytes, more than"},
        {UINT64_MAX - 5, "more than"}, /* plus 8 this is 2 */
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        stored_text made = stored_text_make("{}", 2, 0);
        for (int b = 0; b < PREFIX; b++)
            made.bytes[b] = (unsigned char)(list[i].claimed >> 8 * b);
        check_refused(made, "a claimed length", ATTN_MALFORMED, "", list[i].part);
    }
    for (size_t size = 0; size < PREFIX; size++) {
        stored_text made = stored_text_make("", 0, 0);
        made.size = size;
        check_refused(made, "a short text", ATTN_MALFORMED, "", "too short for safetensors");
    }
    check_refused((stored_text){NULL, 0}, "nothing", ATTN_MALFORMED, "", "0 bytes are too short");
    stored_text made = stored_text_make("", 0, 0);
    check_refused(made, "no header", ATTN_MALFORMED, "", "the header is empty");
}

static void every_truncation(void)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\"}," ENTRY("q", "F32", "[2]", 0, 8) "}";
    stored_text whole = stored_text_make(header, strlen(header), 8);
    for (size_t size = 0; size < whole.size; size++) {
        stored_text part = {stored_memory(size), size};
        memcpy(part.bytes, whole.bytes, size);
        attn_error error;
        attn_safetensors *file = open_text(part, &error);
        CHECK(!file && error.status == ATTN_MALFORMED, "%zu of %zu bytes", size, whole.size);
        attn_safetensors_close(file);
        free(part.bytes);
        if (size <= PREFIX)
            continue;
        part = stored_text_make(header, size - PREFIX < strlen(header) ? size - PREFIX : 1, 8);
        file = open_text(part, &error); /* now the length fits, but the JSON ends early */
        CHECK(!file && error.status == ATTN_MALFORMED, "a header of %zu bytes", size - PREFIX);
        attn_safetensors_close(file);
        free(part.bytes);
    }
    free(whole.bytes);
}

static void not_an_object(void)
{
    static const refusal list[] = {
        {"[]", 0, "", "the header has \"[\" at byte 0, expected an object"},
        {"null", 0, "", "at byte 0, expected an object"},
        {"5", 0, "", "at byte 0, expected an object"},
        {" {}", 0, "", "\" \" at byte 0, expected an object"},
        {"\xef\xbb\xbf{}", 0, "", "\"?\" at byte 0"},
        {"{", 0, "", "has its end at byte 1, expected a tensor's name"},
        {"{}}", 0, "", "\"}\" at byte 2, expected nothing but spaces"},
        {"{} x", 0, "", "\"x\" at byte 3"},
        {"{,}", 0, "", "\",\" at byte 1, expected a tensor's name"},
        {"{a:1}", 0, "", "\"a\" at byte 1, expected a tensor's name"},
        {"{\"a\"}", 0, "", "\"}\" at byte 4, expected ':'"},
        {"{\"a\" 1}", 0, "", "expected ':'"},
        {"{\"a", 0, "", "a tensor's name at byte 1 of the header does not end where it should"},
        {"{\"a\nb\":1}", 0, "", "at byte 1 of the header is not JSON"},
        {"{\"a\\x\":1}", 0, "", "at byte 1 of the header is not JSON"},
        {"{" ENTRY("a", "F32", "[0]", 0, 0), 0, "", "its end at byte 53, expected ',' or '}'"},
        {"{" ENTRY("a", "F32", "[0]", 0, 0) ",}", 0, "", "\"}\" at byte 54, expected a tensor's"},
        {"{" ENTRY("a", "F32", "[0]", 0, 0) " \"b\"", 0, "", "expected ',' or '}'"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
}

/* Entries */

static void wrong_members(void)
{
    static const refusal list[] = {
        {"{\"w\":5}", 0, "w", "tensor \"w\" has no entry, expected an object"},
        {"{\"w\":null}", 0, "w", "expected an object"},
        {"{\"w\":[]}", 0, "w", "expected an object"},
        {"{\"w\":", 0, "w", "expected an object"},
        {"{\"\":{}}", 0, "", "tensor \"\" has an empty name"},
        {"{\"w\":{}}", 0, "w", "tensor \"w\" has no dtype"},
        {"{\"w\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "w", "has no dtype"},
        {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "w", "has no shape"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, "w", "has no shape"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "w", "no shape"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "w", "has no data_offsets"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4]}}", 4, "w", "data_offsets"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4,4]}}", 4, "w", "two whole"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,\"4\"]}}", 4, "w",
         "two whole"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}", 4, "w",
         "has the unknown member \"x\""},
        {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4,
         "w", "has an entry that has a duplicate member"},
        {"{\"w\":{\"dtype\":\"F\\u0000\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "w",
         "has an entry that holds a NUL character"},
        {"{\"w\":{\"d\\u0000type\":\"F32\"}}", 4, "w", "has an entry that holds a NUL character"},
        {"{\"w\":{\"dtype\":\"\xff\"}}", 0, "w", "has an entry that is not UTF-8"},
        {"{\"w\":{dtype}}", 0, "w", "has an entry that is not JSON"},
        {"{\"w\":{\"dtype\":\"F32\"", 0, "w", "has an entry that does not end where it should"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
}

static void wrong_numbers(void)
{
    static const refusal list[] = {
        {"{" ENTRY("w", "F32", "[1,-1]", 0, 4) "}", 4, "w", "shape[1] that is not a whole number"},
        {"{" ENTRY("w", "F32", "[1.5,2]", 0, 12) "}", 12, "w", "shape[0] that is not a whole"},
        {"{" ENTRY("w", "F32", "[1.0]", 0, 4) "}", 4, "w", "shape[0] that is not a whole"},
        {"{" ENTRY("w", "F32", "[1e0]", 0, 4) "}", 4, "w", "shape[0] that is not a whole"},
        {"{" ENTRY("w", "F32", "[\"2\",2]", 0, 16) "}", 16, "w", "shape[0] that is not a whole"},
        {"{" ENTRY("w", "F32", "[null]", 0, 4) "}", 4, "w", "shape[0]"},
        {"{" ENTRY("w", "F32", "[true]", 0, 4) "}", 4, "w", "shape[0]"},
        {"{" ENTRY("w", "F32", "[[1]]", 0, 4) "}", 4, "w", "shape[0]"},
        {"{" ENTRY("w", "F32", "[9223372036854775808]", 0, 4) "}", 4, "w", "too large"},
        {"{" ENTRY("w", "F32", "[1e999]", 0, 4) "}", 4, "w", "too large"},
        {"{" ENTRY("w", "F32", "[01]", 0, 4) "}", 4, "w", "is not JSON"},
        {"{" ENTRY("w", "F32", "[NaN]", 0, 4) "}", 4, "w", "is not JSON"},
        {"{" ENTRY("w", "F32", "[1]", -4, 0) "}", 4, "w", "two whole numbers"},
        {"{" ENTRY("w", "F32", "[1]", 0.0, 4.0) "}", 4, "w", "two whole numbers"},
        {"{" ENTRY("w", "F32", "[1]", 4, 0) "}", 4, "w", "begin after their end"},
        {"{" ENTRY("w", "F32", "[1]", 0, 18446744073709551620) "}", 4, "w", "too large"},
        {"{" ENTRY("w", "F32", "[1]", 9223372036854775803, 9223372036854775807) "}", 4, "w",
         "ends at byte 9223372036854775807 of the data, which are 4 bytes: truncated"},
        /* products that wrap to what the range holds */
        {"{" ENTRY("w", "F32", "[8589934592,8589934592]", 0, 0) "}", 0, "w", "whole number below"},
        {"{" ENTRY("w", "F32", "[4611686018427387905]", 0, 4) "}", 4, "w", "whole number below"},
        {"{" ENTRY("w", "F64", "[2305843009213693953]", 0, 8) "}", 8, "w", "whole number below"},
        {"{" ENTRY("w", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "w", "whole number below"},
        {"{" ENTRY("w", "F32", "[0,9223372036854775807,3]", 0, 0) "}", 0, "w", "whole number"},
        {"{" ENTRY("w", "F32", "[9223372036854775807,3,0]", 0, 0) "}", 0, "w", "whole number"},
        {"{" ENTRY("w", "NEW", "[9223372036854775807,3]", 0, 4) "}", 4, "w", "whole number"},
        {"{" ENTRY("w", "F4", "[3]", 0, 1) "}", 1, "w", "whole number"},
        {"{" ENTRY("w", "F32", "[2,3]", 0, 20) "}", 20, "w",
         "has 6 elements of F32, 24 bytes, but its data_offsets hold 20"},
        {"{" ENTRY("w", "F32", "[0]", 0, 4) "}", 4, "w", "has 0 elements of F32"},
        {"{" ENTRY("w", "F32", "[]", 0, 0) "}", 0, "w", "has 1 elements of F32"},
        {"{" ENTRY("w", "BF16", "[1]", 0, 4) "}", 4, "w", "1 elements of BF16, 2 bytes"},
        {"{" ENTRY("w", "I64", "[1]", 0, 4) "}", 4, "w", "1 elements of I64, 8 bytes"},
        {"{" ENTRY("w", "F4", "[4]", 0, 4) "}", 4, "w", "4 elements of F4, 2 bytes"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
}

/* Tensors against each other and against the data */

static void layout(void)
{
    static const refusal list[] = {
        {"{" ENTRY("a", "F32", "[4]", 0, 16) "," ENTRY("b", "F32", "[4]", 8, 24) "}", 24, "b",
         "begins at byte 8 of the data, before tensor \"a\" ends at 16: an overlap"},
        {"{" ENTRY("b", "F32", "[4]", 8, 24) "," ENTRY("a", "F32", "[4]", 0, 16) "}", 24, "b",
         "overlap"},
        {"{" ENTRY("a", "F32", "[1]", 0, 4) "," ENTRY("b", "F32", "[1]", 0, 4) "}", 4, "b",
         "overlap"},
        {"{" ENTRY("a", "F32", "[2]", 0, 8) "," ENTRY("z", "F32", "[0]", 4, 4) "}", 8, "z",
         "overlap"},
        {"{" ENTRY("a", "F32", "[1]", 0, 4) "," ENTRY("b", "F32", "[1]", 8, 12) "}", 12, "b",
         "begins at byte 8 of the data, but those from 4 belong to no tensor: a gap"},
        {"{" ENTRY("a", "F32", "[1]", 1, 5) "}", 5, "a", "those from 0 belong to no tensor: a gap"},
        {"{" ENTRY("z", "F32", "[0]", 4, 4) "}", 4, "z", "a gap"},
        {"{" ENTRY("a", "F32", "[1]", 0, 4) "}", 5, "", "1 trailing bytes follow the data"},
        {"{" ENTRY("a", "F32", "[1]", 0, 4) "}", 3, "a",
         "ends at byte 4 of the data, which are 3 bytes: truncated"},
        {"{}", 1, "", "1 trailing bytes"},
        {"{" ENTRY("a", "F32", "[1]", 0, 4) "," ENTRY("a", "F32", "[1]", 4, 8) "}", 8, "a",
         "tensor \"a\" is there more than once: a duplicate name"},
        {"{" ENTRY("a", "F32", "[1]", 0, 4) "," ENTRY("b", "F32", "[1]", 4, 8) "," ENTRY(
             "\\u0061", "F32", "[1]", 8, 12) "}",
         12, "a", "a duplicate name"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
}

static void metadata_faults(void)
{
    static const refusal list[] = {
        {"{\"__metadata__\":null}", 0, "", "\"n\" at byte 16, expected an object"},
        {"{\"__metadata__\":[\"a\"]}", 0, "", "expected an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "", "expected a string as value of __metadata__"},
        {"{\"__metadata__\":{\"a\":null}}", 0, "", "expected a string as value of __metadata__"},
        {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "", "expected a string as value"},
        {"{\"__metadata__\":{1:\"a\"}}", 0, "", "expected a string as key of __metadata__"},
        {"{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", 0, "",
         "__metadata__ has the key \"a\" more than once"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "", "a duplicate __metadata__"},
        {"{\"__metadata__\":{},\"\\u005f_metadata__\":{}}", 0, "", "a duplicate __metadata__"},
        {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", 0, "", "holds a NUL character"},
        {"{\"__metadata__\":{\"a\":\"\xc0\xaf\"}}", 0, "", "is not UTF-8"},
        {"{\"__metadata__\":{\"a\":\"b\"", 0, "", "its end at byte 24, expected ',' or '}'"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
}

/* Names that a stranger chose must not reach a log or an answer as they are. */
static void odd_names(void)
{
    static const refusal list[] = {
        {"{\"a\\u0000b\":{}}", 0, "", "a tensor's name at byte 1 of the header holds a NUL"},
        {"{\"a\xff\":{}}", 0, "", "a tensor's name at byte 1 of the header is not UTF-8"},
        {"{\"\xed\xa0\x80\":{}}", 0, "", "is not UTF-8"}, /* a surrogate by itself */
        {"{\"\\ud800\":{}}", 0, "", "is not JSON"},
        {"{\"\\u001b[2J\\n\\\"\xc3\xa9\":{}}", 0, "?[2J?\"??", "tensor \"?[2J?\"??\" has no dtype"},
        {"{\"%s%n\":{}}", 0, "%s%n", "tensor \"%s%n\" has no dtype"},
    };
    CHECK_REFUSALS(list, ATTN_MALFORMED);
    static const char raw_nul[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[1\0],\"data_offsets\":[0,4]}}";
    check_refused(stored_text_make(raw_nul, sizeof raw_nul - 1, 4), "a raw NUL", ATTN_MALFORMED, "",
                  "the header holds a NUL byte");

    enum {
        LONG = 1000
    };
    char header[LONG + 16] = "{\"";
    memset(header + 2, 'n', LONG);
    strcpy(header + 2 + LONG, "\":{}}");
    attn_error error;
    stored_text made = stored_text_make(header, strlen(header), 0);
    CHECK(open_text(made, &error) == NULL, "a long name is no entry");
    CHECK(strstr(error.message, "nnn...\" has no dtype") != NULL, "\"%s\"", error.message);
    CHECK(strlen(error.message) < 160, "%zu bytes of message", strlen(error.message));
    free(made.bytes);
}

static void long_file_names(void)
{
    char path[300];
    memset(path, 'd', sizeof path);
    strcpy(path + sizeof path - 24, "/demo/model.safetensors");
    attn_error error = {0};
    CHECK(!attn_safetensors_open("", 0, path, &error), "nothing is accepted");
    CHECK(strncmp(error.message, "...ddd", 6) == 0 &&
              strstr(error.message, "d/demo/model.safetensors: 0 bytes") != NULL,
          "\"%s\"", error.message);
}

static void many_dimensions(void)
{
    enum {
        RANK = 200
    };
    char shape[2 * RANK + 2] = "[1", header[2 * RANK + 128];
    for (int i = 1; i < RANK; i++)
        strcat(shape, ",1");
    snprintf(header, sizeof header,
             "{\"w\":{\"dtype\":\"F32\",\"shape\":%s],\"data_offsets\":[0,4]}}", shape);
    check_refused(stored_text_make(header, strlen(header), 4), "rank 200", ATTN_UNSUPPORTED, "w",
                  "has 200 dimensions, more than the 8 that are read");
    static const refusal nine[] = {
        {"{" ENTRY("w", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "w", "has 9 dimensions"},
    };
    CHECK_REFUSALS(nine, ATTN_UNSUPPORTED);
}

/* Floods */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* `head`, then `count` times `unit`: refused in far less time than anything but one pass takes. */
static void check_flood(const char *head, const char *unit, size_t count, const char *param,
                        const char *part)
{
    size_t length = strlen(head) + strlen(unit) * count;
    char *header = stored_memory(length + 1), *to = stpcpy(header, head);
    for (size_t i = 0; i < count; i++)
        to = stpcpy(to, unit);
    stored_text made = stored_text_make(header, length, 0);
    free(header);
    double start = seconds();
    check_refused(made, head, ATTN_MALFORMED, param, part);
    CHECK(seconds() - start < 2, "%s%s x %zu took %.2f s", head, unit, count, seconds() - start);
}

static void floods(void)
{
    check_flood("{\"w\":", "[", 1 << 22, "w", "has no entry");
    check_flood("{\"w\":{\"shape\":", "[", 1 << 22, "w", "is nested too deeply");
    check_flood("{\"w\":", "{\"shape\":", 1 << 20, "w", "is nested too deeply");
    check_flood("{\"w\":{\"shape\":[1", ",1", 1 << 21, "w", "has an entry of more than 65536");
    check_flood("{\"w\":{\"dtype\":\"", "F", 1 << 22, "w", "has an entry of more than 65536");
    check_flood("{\"", "w", 1 << 22, "", "does not end where it should");
    check_flood("{\"__metadata__\":{\"", "w", 1 << 22, "", "does not end where it should");
    check_flood("{", " ", 1 << 22, "", "has its end at byte 4194305");
}

static const test_case cases[] = {
    {"lengths", lengths},
    {"every truncation", every_truncation},
    {"not an object", not_an_object},
    {"wrong members", wrong_members},
    {"wrong numbers", wrong_numbers},
    {"layout", layout},
    {"metadata faults", metadata_faults},
    {"odd names", odd_names},
    {"long file names", long_file_names},
    {"many dimensions", many_dimensions},
    {"floods", floods},
    {NULL, NULL},
};

int main(void)
{
    return test_main("safetensors_hostile", cases);
}
