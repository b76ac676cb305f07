#include "attn/quote.h"
#include "attn/safetensors.h"
#include "tests/support/stored.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PREFIX = ATTN_SAFETENSORS_PREFIX
};

/* Texts that are read */

static attn_safetensors *need_open(stored_text made)
{
    attn_error error = {0};
    attn_safetensors *file = attn_safetensors_open(made.bytes, made.size, "the body", &error);
    CHECK(file != NULL, "refused: %s", error.message);
    if (!file)
        abort();
    return file;
}

static void reads_a_checkpoint(void)
{
    static const char header[] =
        "{\"c\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[22,38]},"
        " \"__metadata__\" : { \"format\" : \"pt\" ,\n\"e\\u0301\\\"\":\"\\ud83d\\ude00\", "
        "\"\":\"\"} ,\t"
        "\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"\\u00e9\":{\"data_offsets\":[8,20],\"shape\":[2,3],\"dtype\":\"F16\"},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[4,0],\"data_offsets\":[22,22]},"
        "\"n\":{\"dtype\":\"F9\",\"shape\":[7],\"data_offsets\":[20,22]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[22,22]}}  \n ";
    static const struct {
        const char *name, *type;
        bool readable;
        size_t at, bytes, count;
        int rank;
        int64_t dim[2];
    } expected[] = {
        {"s", "F64", true, 0, 8, 1, 0, {0}},     {"\xc3\xa9", "F16", true, 8, 12, 6, 2, {2, 3}},
        {"n", "F9", false, 20, 2, 7, 1, {7}},    {"a", "BF16", true, 22, 0, 0, 1, {0}},
        {"z", "F32", true, 22, 0, 0, 2, {4, 0}}, {"c", "I64", false, 22, 16, 2, 2, {1, 2}},
    };
    enum {
        COUNT = sizeof expected / sizeof *expected
    };
    stored_text made = stored_text_make(header, strlen(header), 38);
    attn_safetensors *file = need_open(made);
    CHECK(attn_safetensors_count(file) == COUNT, "%d tensors", attn_safetensors_count(file));
    for (int i = 0; i < COUNT; i++) {
        const attn_stored *stored = attn_safetensors_at(file, i);
        const char *name = expected[i].name;
        CHECK(strcmp(stored->name, name) == 0, "%d is %s, not %s", i, stored->name, name);
        CHECK(strcmp(stored->type, expected[i].type) == 0, "%s is %s", name, stored->type);
        CHECK(stored->readable == expected[i].readable, "%s: readable", name);
        CHECK(stored->data == made.bytes + PREFIX + strlen(header) + expected[i].at, "%s: data",
              name);
        CHECK(stored->bytes == expected[i].bytes, "%s: %zu bytes", name, stored->bytes);
        CHECK(stored->count == expected[i].count, "%s: %zu elements", name, stored->count);
        CHECK(stored->rank == expected[i].rank, "%s: rank %d", name, stored->rank);
        for (int d = 0; d < stored->rank; d++)
            CHECK(stored->dim[d] == expected[i].dim[d], "%s: dim %d", name, d);
        CHECK(attn_safetensors_find(file, name) == stored, "%s is not found", name);
    }
    static const char *const absent[] = {"", "A", "aa", "__metadata__", "zz", "\xc3"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK(!attn_safetensors_find(file, absent[i]), "\"%s\" is found", absent[i]);
    CHECK(strcmp(attn_safetensors_metadata(file, "format"), "pt") == 0, "metadata");
    CHECK(strcmp(attn_safetensors_metadata(file, "e\xcc\x81\""), "\xf0\x9f\x98\x80") == 0,
          "escapes in metadata");
    CHECK(strcmp(attn_safetensors_metadata(file, ""), "") == 0, "an empty key");
    CHECK(!attn_safetensors_metadata(file, "Format"), "no such key");
    attn_safetensors_close(file);
    free(made.bytes);
}

static void needs(void)
{
    static const char header[] =
        "{\"f\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"position_ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[4,12]},"
        "\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[12,13]},"
        "\"x\":{\"dtype\":\"f32\\n\",\"shape\":[1],\"data_offsets\":[13,17]}}";
    static const struct {
        const char *name;
        attn_status status;
        const char *message;
    } list[] = {
        {"position_ids", ATTN_UNSUPPORTED,
         "the body: tensor \"position_ids\" has elements of type \"I64\", expected F32, F16, BF16 "
         "or F64"},
        {"w", ATTN_UNSUPPORTED,
         "the body: tensor \"w\" has elements of type \"F8_E4M3\", expected F32, F16, BF16 or F64"},
        {"x", ATTN_UNSUPPORTED,
         "the body: tensor \"x\" has elements of type \"f32?\", expected F32, F16, BF16 or F64"},
        {"g", ATTN_INVALID, "the body: tensor \"g\" is missing"},
    };
    stored_text made = stored_text_make(header, strlen(header), 17);
    attn_safetensors *file = need_open(made);
    attn_error error = {0};
    CHECK(attn_safetensors_need(file, "f", &error) == attn_safetensors_at(file, 0), "f");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        error = (attn_error){0};
        CHECK(!attn_safetensors_need(file, list[i].name, &error), "%s", list[i].name);
        CHECK(error.status == list[i].status, "%s: %s", list[i].name,
              attn_status_name(error.status));
        CHECK(strcmp(error.param, list[i].name) == 0, "%s: param %s", list[i].name, error.param);
        CHECK(strcmp(error.message, list[i].message) == 0, "\"%s\"", error.message);
    }
    attn_safetensors_close(file);
    free(made.bytes);
}

static void no_tensors(void)
{
    static const char *const headers[] = {"{}", "{ }   ", "{\"__metadata__\":{}}", "{}\n\t\r "};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        stored_text made = stored_text_make(headers[i], strlen(headers[i]), 0);
        attn_safetensors *file = need_open(made);
        CHECK(attn_safetensors_count(file) == 0, "%s", headers[i]);
        CHECK(!attn_safetensors_find(file, "q"), "%s", headers[i]);
        CHECK(!attn_safetensors_metadata(file, "q"), "%s", headers[i]);
        attn_safetensors_close(file);
        free(made.bytes);
    }
    attn_safetensors_close(NULL);
}

/* Words of 16 bits and what they are worth; 3f80 read as F16 would be 1.875. */
static void half_words(void)
{
    static const char header[] = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[0,8]},"
                                 "\"h\":{\"dtype\":\"F16\",\"shape\":[5],\"data_offsets\":[8,18]}}";
    static const unsigned words[9] = {0x3f80, 0xc049, 0x0001, 0x7f80, 0x3c00,
                                      0x0001, 0x03ff, 0x7bff, 0xfc00};
    static const float worth[9] = {1,        -3.140625f,      0x1p-133f, INFINITY, 1,
                                   0x1p-24f, 1023 * 0x1p-24f, 65504,     -INFINITY};
    stored_text made = stored_text_make(header, strlen(header), sizeof words / sizeof *words * 2);
    for (size_t i = 0; i < 9; i++) {
        made.bytes[PREFIX + strlen(header) + 2 * i] = (unsigned char)(words[i] & 255);
        made.bytes[PREFIX + strlen(header) + 2 * i + 1] = (unsigned char)(words[i] >> 8);
    }
    attn_safetensors *file = need_open(made);
    float got[9];
    attn_error error = {0};
    const attn_stored *b = attn_safetensors_need(file, "b", &error);
    const attn_stored *h = attn_safetensors_need(file, "h", &error);
    attn_dtype_to_float(b->dtype, b->data, b->count, got);
    attn_dtype_to_float(h->dtype, h->data, h->count, got + 4);
    for (size_t i = 0; i < 9; i++)
        CHECK(got[i] == worth[i], "%04x is %a, expected %a", words[i], (double)got[i],
              (double)worth[i]);
    CHECK(attn_first_non_finite(got, 9) == 3, "the infinity is seen");
    attn_safetensors_close(file);
    free(made.bytes);
}

/* Data at every offset within eight bytes, behind a header of every length and behind U8. */
static void unaligned(void)
{
    for (int spaces = 0; spaces < 8; spaces++) {
        for (int before = 0; before < 8; before++) {
            char header[256];
            int length =
                snprintf(header, sizeof header,
                         "{\"u\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
                         "\"d\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[%d,%d]}}%.*s",
                         before, before, before, before + 24, spaces, "        ");
            static const double values[3] = {1.5, -0x1p-149, 3e38};
            stored_text made =
                stored_text_make(header, (size_t)length, (size_t)before + sizeof values);
            memcpy(made.bytes + PREFIX + length + before, values, sizeof values);
            attn_safetensors *file = need_open(made);
            const attn_stored *stored = attn_safetensors_find(file, "d");
            float got[3];
            attn_dtype_to_float(stored->dtype, stored->data, stored->count, got);
            for (int i = 0; i < 3; i++)
                CHECK(got[i] == (float)values[i], "%d spaces, %d bytes before: %a", spaces, before,
                      (double)got[i]);
            attn_safetensors_close(file);
            free(made.bytes);
        }
    }
}

/* The writer */

static void round_trip(void)
{
    static const attn_stored tensors[] = {
        {.name = "output", .dtype = ATTN_FP32, .rank = 4, .dim = {1, 2, 3, 1}},
        {.name = "a \"quoted\"\\ \n\x01 \xc3\xa9 \x7f/", .dtype = ATTN_FP16, .rank = 1, .dim = {3}},
        {.name = "scalar", .dtype = ATTN_FP64, .rank = 0},
        {.name = "none", .dtype = ATTN_BF16, .rank = 2, .dim = {5, 0}},
        {.name = "eight", .dtype = ATTN_BF16, .rank = 8, .dim = {1, 1, 1, 1, 1, 1, 1, 2}},
    };
    static const attn_metadata metadata[] = {
        {"route", "{\"rule\":\"short\",\"reason\":\"n < 4096\"}"},
        {"id", "\"\\u0041\""},
        {"", "\xe2\x82\xac\t"},
    };
    enum {
        TENSORS = 5,
        PAIRS = 3,
        DATA = 24 + 6 + 8 + 4
    };
    unsigned char *header;
    size_t bytes;
    attn_error error = {0};
    attn_status status =
        attn_safetensors_header(tensors, TENSORS, metadata, PAIRS, &header, &bytes, &error);
    CHECK(status == ATTN_OK, "%s", error.message);
    if (status != ATTN_OK)
        return;
    CHECK(bytes % ATTN_SAFETENSORS_ALIGN == 0, "data begin at %zu", bytes);
    CHECK(header[PREFIX] == '{', "begins with %c", header[PREFIX]);
    stored_text made = stored_text_make((const char *)header + PREFIX, bytes - PREFIX, DATA);
    CHECK(memcmp(made.bytes, header, bytes) == 0, "the length is that of the header");
    attn_safetensors *file = need_open(made);
    CHECK(attn_safetensors_count(file) == TENSORS, "%d", attn_safetensors_count(file));
    size_t at = bytes;
    for (int i = 0; i < TENSORS; i++) {
        const attn_stored *stored = attn_safetensors_find(file, tensors[i].name);
        CHECK(stored && stored->readable && stored->dtype == tensors[i].dtype, "tensor %d", i);
        CHECK(stored && stored->rank == tensors[i].rank &&
                  memcmp(stored->dim, tensors[i].dim, sizeof stored->dim) == 0,
              "shape of %d", i);
        CHECK(stored && stored->data == made.bytes + at, "data of %d", i);
        at += stored ? stored->bytes : 0;
    }
    CHECK(at == made.size, "%zu bytes described", at);
    for (int i = 0; i < PAIRS; i++) {
        const char *value = attn_safetensors_metadata(file, metadata[i].key);
        CHECK(value && strcmp(value, metadata[i].value) == 0, "metadata %d: \"%s\"", i,
              value ? value : "");
    }
    attn_safetensors_close(file);
    free(made.bytes);
    free(header);
}

/* Headers of every length up to a few lines: the padding never fails and never passes 63. */
static void padding(void)
{
    char name[ATTN_SAFETENSORS_ALIGN + 2] = "";
    for (size_t i = 0; i <= ATTN_SAFETENSORS_ALIGN; i++) {
        name[i] = 'n';
        attn_stored tensor = {.name = name, .rank = 1, .dim = {0}};
        unsigned char *header = NULL;
        size_t bytes = 0;
        attn_status status = attn_safetensors_header(&tensor, 1, NULL, 0, &header, &bytes, NULL);
        CHECK(status == ATTN_OK && bytes % ATTN_SAFETENSORS_ALIGN == 0, "%zu: %zu", i, bytes);
        size_t spaces = 0;
        while (spaces < bytes && header[bytes - 1 - spaces] == ' ')
            spaces++;
        CHECK(spaces < ATTN_SAFETENSORS_ALIGN, "%zu: %zu spaces", i, spaces);
        bool accepted;
        const char *fault = stored_fault(header, bytes, &accepted);
        CHECK(!fault && accepted, "%zu: %s", i, fault ? fault : "refused");
        free(header);
    }
    unsigned char *header = NULL;
    size_t bytes = 0;
    CHECK(attn_safetensors_header(NULL, 0, NULL, 0, &header, &bytes, NULL) == ATTN_OK, "nothing");
    CHECK(bytes == ATTN_SAFETENSORS_ALIGN, "nothing takes %zu bytes", bytes);
    free(header);
}

static void writer_refusals(void)
{
    static const struct {
        attn_stored tensors[2];
        attn_metadata metadata[2];
        const char *part;
    } list[] = {
        {{{.name = ""}, {.name = "b"}}, {{"a", ""}, {"b", ""}}, "cannot write \"\""},
        {{{.name = "__metadata__"}, {.name = "b"}}, {{"a", ""}, {"b", ""}}, "\"__metadata__\""},
        {{{.name = "b"}, {.name = "b"}},
         {{"a", ""}, {"b", ""}},
         "\"b\" to safetensors: the name is"},
        {{{.name = "a\xff"}, {.name = "b"}},
         {{"a", ""}, {"b", ""}},
         "\"a?\" to safetensors: the na"},
        {{{.name = "a", .rank = 9}, {.name = "b"}}, {{"a", ""}, {"b", ""}}, "too many dimensions"},
        {{{.name = "a", .rank = 1, .dim = {-1}}, {.name = "b"}},
         {{"a", ""}, {"b", ""}},
         "negative"},
        {{{.name = "a", .rank = 2, .dim = {1ll << 32, 1ll << 31}}, {.name = "b"}},
         {{"a", ""}, {"b", ""}},
         "\"a\" to safetensors: it is too large"},
        {{{.name = "a", .rank = 1, .dim = {1ll << 57}},
          {.name = "b", .rank = 1, .dim = {INT64_MAX / 32}}},
         {{"a", ""}, {"b", ""}},
         NULL}, /* large, but every offset is a number */
        {{{.name = "a"}, {.name = "b"}},
         {{"a", ""}, {"a", ""}},
         "\"a\" to safetensors: the key is"},
        {{{.name = "a"}, {.name = "b"}},
         {{"a", "\xff"}, {"b", ""}},
         "\"a\" to safetensors: the key or"},
        {{{.name = "a"}, {.name = "b"}},
         {{"a", ""}, {"\xc0", ""}},
         "\"?\" to safetensors: the key or"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        unsigned char *header = NULL;
        size_t bytes;
        attn_error error = {0};
        attn_status status = attn_safetensors_header(list[i].tensors, 2, list[i].metadata, 2,
                                                     &header, &bytes, &error);
        CHECK(status == (list[i].part ? ATTN_INVALID : ATTN_OK), "%zu: %s", i,
              attn_status_name(status));
        CHECK(!list[i].part || strstr(error.message, list[i].part), "%zu: \"%s\"", i,
              error.message);
        free(header);
    }
}

/* Running out of memory inside jansson, at every allocation in turn. */

static size_t allocations_left; /* of jansson, before it is told that there is no memory */

static void *failing_malloc(size_t bytes)
{
    if (allocations_left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    allocations_left--;
    return malloc(bytes);
}

static attn_status write_within(size_t allocations, unsigned char **header, size_t *bytes)
{
    static const attn_stored tensors[] = {
        {.name = "a", .rank = 2, .dim = {0, 3}},
        {.name = "b", .rank = 1, .dim = {0}},
    };
    static const attn_metadata metadata = {"key", "value"};
    attn_error error = {0};
    allocations_left = allocations;
    attn_status status = attn_safetensors_header(tensors, 2, &metadata, 1, header, bytes, &error);
    CHECK(status == error.status && (status == ATTN_OK || status == ATTN_NO_MEMORY),
          "writing with %zu allocations: %s", allocations, error.message);
    return status;
}

static attn_status read_within(size_t allocations, const unsigned char *header, size_t bytes)
{
    attn_error error = {0};
    allocations_left = allocations;
    attn_safetensors *file = attn_safetensors_open(header, bytes, "the body", &error);
    CHECK((file != NULL) == (error.status == ATTN_OK), "an error goes with a refusal");
    CHECK(file || error.status == ATTN_NO_MEMORY, "reading with %zu allocations: %s", allocations,
          error.message);
    attn_safetensors_close(file);
    return error.status;
}

static void no_memory(void)
{
    enum {
        FEW = 10, /* fewer than either needs */
        ENOUGH = 1000
    };
    unsigned char *header = NULL;
    size_t bytes = 0, writes = 0, reads = 0;
    json_set_alloc_funcs(failing_malloc, free);
    while (writes < ENOUGH && write_within(writes, &header, &bytes) != ATTN_OK)
        writes++;
    while (header && reads < ENOUGH && read_within(reads, header, bytes) != ATTN_OK)
        reads++;
    json_set_alloc_funcs(malloc, free);
    CHECK(writes > FEW && writes < ENOUGH, "written with %zu allocations", writes);
    CHECK(reads > FEW && reads < ENOUGH, "read with %zu allocations", reads);
    free(header);
}

/* Many tensors */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* CPU seconds to open a text of `count` tensors in an order that is neither that of the names nor
 * that of the data. */
static double open_many(int count)
{
    size_t room = (size_t)count * 80 + 16;
    char *header = stored_memory(room), *to = stpcpy(header, "{");
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i * 7919 % count; /* a permutation: 7919 is prime and divides no count here */
        to += sprintf(to,
                      "%s\"%06lld\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[%lld,%lld]}",
                      i ? "," : "", (long long)(at * 31 % count), 2ll * at, 2ll * at + 2);
    }
    strcpy(to, "}");
    stored_text made = stored_text_make(header, strlen(header), (size_t)count * 2);
    double start = seconds();
    attn_safetensors *file = need_open(made);
    double took = seconds() - start;
    CHECK(attn_safetensors_count(file) == count, "%d of %d", attn_safetensors_count(file), count);
    for (int64_t at = 0; at < count; at += 97) {
        char name[24];
        snprintf(name, sizeof name, "%06lld", (long long)(at * 31 % count));
        CHECK(attn_safetensors_find(file, name) == attn_safetensors_at(file, (int)at), "%s", name);
    }
    attn_safetensors_close(file);
    free(made.bytes);
    free(header);
    return took;
}

/* Ten times the tensors take ten times as long and a little; a quadratic reader, a hundred times.
 */
static void many_tensors(void)
{
    double few = INFINITY, many = INFINITY;
    for (int i = 0; i < 3; i++) {
        few = fmin(few, open_many(10000));
        many = fmin(many, open_many(100000));
    }
    CHECK(many < 40 * few, "10000 tensors take %.4f s, 100000 take %.4f s", few, many);
}

/* The corpus of the fuzzer */

static stored_text read_file(const char *path)
{
    FILE *file = fopen(path, "rbe");
    CHECK(file != NULL, "%s cannot be opened", path);
    stored_text read = {stored_memory(1 << 16), 0};
    if (file) {
        read.size = fread(read.bytes, 1, 1 << 16, file);
        fclose(file);
    }
    stored_text exact = {stored_memory(read.size), read.size};
    memcpy(exact.bytes, read.bytes, read.size);
    free(read.bytes);
    return exact;
}

static void corpus(void)
{
    static const char folder[] = "tests/corpus/safetensors";
    DIR *files = opendir(folder);
    CHECK(files != NULL, "%s is not there: tests run from the root of the project", folder);
    if (!files)
        return;
    int taken = 0, refused = 0;
    for (struct dirent *entry; (entry = readdir(files));) {
        if (entry->d_name[0] == '.')
            continue;
        char path[sizeof folder + sizeof entry->d_name];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        stored_text read = read_file(path);
        bool accepted;
        const char *fault = stored_fault(read.bytes, read.size, &accepted);
        CHECK(fault == NULL, "%s: %s", path, fault);
        taken += accepted;
        refused += !accepted;
        free(read.bytes);
    }
    closedir(files);
    CHECK(taken > 0 && refused > 0, "%d accepted, %d refused", taken, refused);
}

static void quoting(void)
{
    static const struct {
        const char *text, *quoted;
    } list[] = {
        {"", "\"\""},           {"abcd", "\"abcd\""}, {"abcde", "\"abcd...\""},
        {"a\n\x7f", "\"a??\""}, {"\"\\", "\"\"\\\""}, {"\xc3\xa9", "\"??\""},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char to[ATTN_QUOTE_MIN + 4];
        attn_quote(to, sizeof to, list[i].text, strlen(list[i].text));
        CHECK(strcmp(to, list[i].quoted) == 0, "%s, expected %s", to, list[i].quoted);
    }
}

static const test_case cases[] = {
    {"reads a checkpoint", reads_a_checkpoint},
    {"needs", needs},
    {"no tensors", no_tensors},
    {"half words", half_words},
    {"unaligned", unaligned},
    {"round trip", round_trip},
    {"padding", padding},
    {"writer refusals", writer_refusals},
    {"no memory", no_memory},
    {"many tensors", many_tensors},
    {"corpus", corpus},
    {"quoting", quoting},
    {NULL, NULL},
};

int main(void)
{
    return test_main("safetensors", cases);
}
