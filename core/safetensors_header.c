/* The JSON header of safetensors, read member by member.
 *
 * jansson judges every name, string and entry, but never sees the whole: a tree of the header would
 * cost up to forty times its size, and a stranger chooses that size. So the two outer levels (the
 * header itself and "__metadata__") are walked here, and an entry has a limit. Strings are kept in
 * one block as large as the header, since no string grows when its escapes are resolved. */
#include "safetensors.h"

#include "attn/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRY_MAX = 1 << 16 /* bytes of one tensor's description */
};

typedef struct reader {
    attn_safetensors *file;
    const char *at, *end;
    bool has_metadata;
    attn_error *error;
} reader;

/* `...` is a format and its arguments. */
#define REFUSE(r, status, name, ...) \
    attn_safetensors_refuse((r)->file->what, (r)->error, status, name, __VA_ARGS__)
#define MALFORMED(r, name, ...) REFUSE(r, ATTN_MALFORMED, name, __VA_ARGS__)

/* Characters */

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static bool next_is(reader *r, char c)
{
    skip_space(r);
    return r->at < r->end && *r->at == c;
}

static bool take(reader *r, char c)
{
    bool there = next_is(r, c);
    r->at += there;
    return there;
}

/* Refuse what stands where `expected` belongs. */
static bool misplaced(reader *r, const char *expected)
{
    char found[16] = "its end";
    if (r->at < r->end)
        attn_quote(found, sizeof found, r->at, 1);
    return MALFORMED(r, NULL, "the header has %s at byte %zu, expected %s", found,
                     (size_t)(r->at - r->file->header), expected);
}

/* Values through jansson */

static const char *cause_text(const json_error_t *cause)
{
    switch (json_error_code(cause)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "holds a NUL character";
    case json_error_invalid_utf8:
        return "is not UTF-8";
    case json_error_duplicate_key:
        return "has a duplicate member";
    case json_error_stack_overflow:
        return "is nested too deeply";
    case json_error_numeric_overflow:
        return "holds a number that is too large";
    case json_error_premature_end_of_input:
        return "does not end where it should";
    default:
        return "is not JSON";
    }
}

/* The string or object at r->at, of at most `limit` bytes. The caller owns it; NULL: refused, with
 * `name` or else `what` as the one at fault. */
static json_t *load(reader *r, size_t limit, const char *name, const char *what)
{
    size_t room = (size_t)(r->end - r->at);
    json_error_t cause;
    errno = 0; /* jansson calls some of its failed allocations a syntax error */
    json_t *value =
        json_loadb(r->at, room < limit ? room : limit,
                   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &cause);
    if (value) {
        r->at += cause.position;
        return value;
    }
    if (errno == ENOMEM)
        REFUSE(r, ATTN_NO_MEMORY, name, "cannot be read for want of memory");
    else if (name && room > limit && json_error_code(&cause) == json_error_premature_end_of_input)
        MALFORMED(r, name, "has an entry of more than %zu bytes", limit);
    else if (name)
        MALFORMED(r, name, "has an entry that %s", cause_text(&cause));
    else
        MALFORMED(r, NULL, "%s at byte %zu of the header %s", what,
                  (size_t)(r->at - r->file->header), cause_text(&cause));
    return NULL;
}

static const char *keep(reader *r, const json_t *string)
{
    char *kept = r->file->text + r->file->text_used;
    size_t bytes = json_string_length(string) + 1;
    memcpy(kept, json_string_value(string), bytes);
    r->file->text_used += bytes;
    return kept;
}

/* Read a string into the file's text; NULL: refused. */
static const char *read_string(reader *r, const char *what)
{
    if (!next_is(r, '"')) {
        misplaced(r, what);
        return NULL;
    }
    json_t *string = load(r, SIZE_MAX, NULL, what);
    if (!string)
        return NULL;
    const char *kept = keep(r, string);
    json_decref(string);
    return kept;
}

/* Read the object at r->at, giving each key to `member`, which reads its value. */
static bool read_object(reader *r, const char *key_is, bool (*member)(reader *, const char *key))
{
    if (!take(r, '{'))
        return misplaced(r, "an object");
    if (take(r, '}'))
        return true;
    do {
        const char *key = read_string(r, key_is);
        if (!key)
            return false;
        if (!take(r, ':'))
            return misplaced(r, "':'");
        if (!member(r, key))
            return false;
    } while (take(r, ','));
    return take(r, '}') || misplaced(r, "',' or '}'");
}

/* Lists */

/* One more zeroed element of `bytes` at the end of a list, or NULL. */
static void *append(void **list, size_t *count, size_t *capacity, size_t bytes)
{
    if (*count == *capacity) {
        size_t wanted = *capacity ? 2 * *capacity : 16;
        void *grown = reallocarray(*list, wanted, bytes);
        if (!grown)
            return NULL;
        *list = grown;
        *capacity = wanted;
    }
    return memset((char *)*list + bytes * (*count)++, 0, bytes);
}

/* Entries */

static bool read_type(reader *r, const json_t *type, attn_stored *stored)
{
    if (!json_is_string(type))
        return MALFORMED(r, stored->name, "has no dtype, expected a string such as \"F32\"");
    const attn_stored_type *known = attn_stored_type_find(json_string_value(type));
    stored->type = known ? known->name : keep(r, type);
    stored->readable = known && known->readable;
    stored->dtype = known ? known->dtype : ATTN_FP32;
    return true;
}

static bool is_size(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool read_shape(reader *r, const json_t *shape, attn_stored *stored)
{
    if (!json_is_array(shape))
        return MALFORMED(r, stored->name, "has no shape, expected an array of whole numbers");
    size_t rank = json_array_size(shape);
    if (rank > ATTN_STORED_RANK_MAX)
        return REFUSE(r, ATTN_UNSUPPORTED, stored->name,
                      "has %zu dimensions, more than the %d that are read", rank,
                      ATTN_STORED_RANK_MAX);
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        if (!is_size(dim))
            return MALFORMED(r, stored->name, "has a shape[%zu] that is not a whole number >= 0",
                             i);
        stored->dim[i] = json_integer_value(dim);
    }
    stored->rank = (int)rank;
    return true;
}

/* Place the tensor in the data, and hold its place against its shape. */
static bool read_offsets(reader *r, const json_t *offsets, attn_stored *stored)
{
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !is_size(first) || !is_size(second))
        return MALFORMED(r, stored->name,
                         "has no data_offsets, expected an array of two whole numbers >= 0");
    uint64_t begin = (uint64_t)json_integer_value(first);
    uint64_t end = (uint64_t)json_integer_value(second);
    if (begin > end)
        return MALFORMED(r, stored->name, "has data_offsets that begin after their end");
    if (end > r->file->data_bytes)
        return MALFORMED(r, stored->name,
                         "ends at byte %" PRIu64 " of the data, which are %zu bytes: truncated",
                         end, r->file->data_bytes);
    const attn_stored_type *known = attn_stored_type_find(stored->type);
    if (!attn_stored_measure(stored, known ? known->bits : 8))
        return MALFORMED(r, stored->name,
                         "has a shape whose bytes are not a whole number below 2^60");
    stored->data = r->file->data + begin;
    if (!known)
        stored->bytes = (size_t)(end - begin);
    else if (stored->bytes != end - begin)
        return MALFORMED(r, stored->name,
                         "has %zu elements of %s, %zu bytes, but its data_offsets hold %" PRIu64,
                         stored->count, known->name, stored->bytes, end - begin);
    return true;
}

static bool check_members(reader *r, json_t *entry, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach(entry, key, value)
    {
        if (strcmp(key, "dtype") == 0 || strcmp(key, "shape") == 0 ||
            strcmp(key, "data_offsets") == 0)
            continue;
        char quoted[32];
        attn_quote(quoted, sizeof quoted, key, strlen(key));
        return MALFORMED(r, name, "has the unknown member %s, expected dtype, shape, data_offsets",
                         quoted);
    }
    return true;
}

static bool read_entry(reader *r, const char *name)
{
    if (*name == '\0')
        return MALFORMED(r, name, "has an empty name");
    if (!next_is(r, '{'))
        return MALFORMED(r, name, "has no entry, expected an object");
    attn_safetensors *file = r->file;
    attn_stored *stored =
        append((void **)&file->tensors, &file->count, &file->capacity, sizeof *file->tensors);
    if (!stored)
        return REFUSE(r, ATTN_NO_MEMORY, name, "is one more than there is memory for");
    stored->name = name;
    json_t *entry = load(r, ENTRY_MAX, name, NULL);
    bool good = entry && check_members(r, entry, name) &&
                read_type(r, json_object_get(entry, "dtype"), stored) &&
                read_shape(r, json_object_get(entry, "shape"), stored) &&
                read_offsets(r, json_object_get(entry, "data_offsets"), stored);
    json_decref(entry);
    return good;
}

/* The header */

static bool read_pair(reader *r, const char *key)
{
    attn_safetensors *file = r->file;
    const char *value = read_string(r, "a string as value of " ATTN_METADATA_KEY);
    if (!value)
        return false;
    attn_metadata *pair = append((void **)&file->metadata, &file->metadata_count,
                                 &file->metadata_capacity, sizeof *file->metadata);
    if (!pair)
        return REFUSE(r, ATTN_NO_MEMORY, NULL, "no memory for one more entry of metadata");
    *pair = (attn_metadata){.key = key, .value = value};
    return true;
}

static bool read_member(reader *r, const char *name)
{
    if (strcmp(name, ATTN_METADATA_KEY) != 0)
        return read_entry(r, name);
    if (r->has_metadata)
        return MALFORMED(r, NULL, "the header has a duplicate " ATTN_METADATA_KEY);
    r->has_metadata = true;
    return read_object(r, "a string as key of " ATTN_METADATA_KEY, read_pair);
}

bool attn_safetensors_parse(attn_safetensors *file, attn_error *error)
{
    reader r = {
        .file = file, .at = file->header, .end = file->header + file->header_bytes, .error = error};
    file->text = malloc(file->header_bytes);
    if (!file->text)
        return REFUSE(&r, ATTN_NO_MEMORY, NULL, "no memory for a header of %zu bytes",
                      file->header_bytes);
    /* jansson steps over a NUL that follows a number, and then misreports where it stands */
    if (memchr(file->header, '\0', file->header_bytes))
        return MALFORMED(&r, NULL, "the header holds a NUL byte");
    if (*file->header != '{')
        return misplaced(&r, "an object");
    if (!read_object(&r, "a tensor's name", read_member))
        return false;
    skip_space(&r);
    return r.at == r.end || misplaced(&r, "nothing but spaces");
}
