/* The safetensors reader: from bytes to tensors that may be trusted.
 *
 * The header's JSON is read elsewhere, tensor by tensor; here the tensors are held against each
 * other and against the data. Sorted by their data they must follow one another exactly, which
 * finds every overlap and hole in one pass; sorted by name, duplicates are neighbours. So a header
 * of any make costs no more than two sorts. */
#include "safetensors.h"

#include "attn/quote.h"

#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_SHOWN = 72 /* bytes of a tensor's name that sentences show, quotes included */
};

bool attn_safetensors_refuse(const char *what, attn_error *error, attn_status status,
                             const char *name, const char *format, ...)
{
    char problem[sizeof error->message], quoted[NAME_SHOWN] = "\"\"";
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    if (!name) {
        attn_error_set(error, status, NULL, "%s: %s", what, problem);
        return false;
    }
    attn_quote(quoted, sizeof quoted, name, strlen(name));
    char param[NAME_SHOWN];
    snprintf(param, sizeof param, "%.*s", (int)strlen(quoted) - 2, quoted + 1);
    attn_error_set(error, status, param, "%s: tensor %s %s", what, quoted, problem);
    return false;
}

/* Find where the header ends and the data begin. */
static bool split(attn_safetensors *file, const unsigned char *bytes, size_t size,
                  attn_error *error)
{
    if (size < ATTN_SAFETENSORS_PREFIX)
        return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, NULL,
                                       "%zu bytes are too short for safetensors, which begins with "
                                       "8 bytes of header length",
                                       size);
    uint64_t length;
    memcpy(&length, bytes, sizeof length);
    length = le64toh(length);
    size_t rest = size - ATTN_SAFETENSORS_PREFIX;
    if (length == 0)
        return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, NULL,
                                       "the header is empty");
    if (length > ATTN_SAFETENSORS_HEADER_MAX)
        return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, NULL,
                                       "the header claims %" PRIu64
                                       " bytes, more than the %d that are allowed; is this "
                                       "safetensors?",
                                       length, ATTN_SAFETENSORS_HEADER_MAX);
    if (length > rest)
        return attn_safetensors_refuse(
            file->what, error, ATTN_MALFORMED, NULL,
            "the header claims %" PRIu64 " bytes, but only %zu follow its length", length, rest);
    file->header = (const char *)bytes + ATTN_SAFETENSORS_PREFIX;
    file->header_bytes = (size_t)length;
    file->data = bytes + ATTN_SAFETENSORS_PREFIX + length;
    file->data_bytes = rest - (size_t)length;
    return true;
}

static int compare_data(const void *left, const void *right)
{
    const attn_stored *a = left, *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right)
{
    const attn_stored *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static int compare_keys(const void *left, const void *right)
{
    const attn_metadata *a = left, *b = right;
    return strcmp(a->key, b->key);
}

/* Order tensors by data and by name, and metadata by key. */
static bool sort(attn_safetensors *file, attn_error *error)
{
    file->by_name = malloc((file->count + 1) * sizeof *file->by_name);
    if (!file->by_name)
        return attn_safetensors_refuse(file->what, error, ATTN_NO_MEMORY, NULL,
                                       "no memory to index %zu tensors", file->count);
    if (file->count > 0) /* with no array to sort, qsort may not even be given NULL */
        qsort(file->tensors, file->count, sizeof *file->tensors, compare_data);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    if (file->metadata_count > 0)
        qsort(file->metadata, file->metadata_count, sizeof *file->metadata, compare_keys);
    return true;
}

static bool check_names(const attn_safetensors *file, attn_error *error)
{
    for (size_t i = 1; i < file->count; i++)
        if (compare_names(&file->by_name[i - 1], &file->by_name[i]) == 0)
            return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED,
                                           file->by_name[i]->name,
                                           "is there more than once: a duplicate name");
    for (size_t i = 1; i < file->metadata_count; i++) {
        if (compare_keys(&file->metadata[i - 1], &file->metadata[i]) != 0)
            continue;
        char quoted[NAME_SHOWN];
        attn_quote(quoted, sizeof quoted, file->metadata[i].key, strlen(file->metadata[i].key));
        return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, NULL,
                                       ATTN_METADATA_KEY " has the key %s more than once: a "
                                                         "duplicate key",
                                       quoted);
    }
    return true;
}

/* Each tensor lies inside the data; together they must cover them, and nothing twice. */
static bool check_cover(const attn_safetensors *file, attn_error *error)
{
    size_t covered = 0;
    for (size_t i = 0; i < file->count; i++) {
        const attn_stored *stored = &file->tensors[i];
        size_t begin = (size_t)(stored->data - file->data);
        if (begin < covered) {
            char before[NAME_SHOWN];
            const char *name = file->tensors[i - 1].name;
            attn_quote(before, sizeof before, name, strlen(name));
            return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, stored->name,
                                           "begins at byte %zu of the data, before tensor %s ends "
                                           "at %zu: an overlap",
                                           begin, before, covered);
        }
        if (begin > covered)
            return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, stored->name,
                                           "begins at byte %zu of the data, but those from %zu "
                                           "belong to no tensor: a gap",
                                           begin, covered);
        covered = begin + stored->bytes;
    }
    if (covered < file->data_bytes)
        return attn_safetensors_refuse(file->what, error, ATTN_MALFORMED, NULL,
                                       "%zu trailing bytes follow the data of the last tensor",
                                       file->data_bytes - covered);
    return true;
}

attn_safetensors *attn_safetensors_open(const void *bytes, size_t size, const char *what,
                                        attn_error *error)
{
    attn_safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to read a safetensors header");
        return NULL;
    }
    attn_quote_end(file->what, sizeof file->what, what);
    if (split(file, bytes, size, error) && attn_safetensors_parse(file, error) &&
        sort(file, error) && check_names(file, error) && check_cover(file, error))
        return file;
    attn_safetensors_close(file);
    return NULL;
}

void attn_safetensors_close(attn_safetensors *file)
{
    if (!file)
        return;
    free(file->text);
    free(file->tensors);
    free(file->by_name);
    free(file->metadata);
    free(file);
}

int attn_safetensors_count(const attn_safetensors *file)
{
    return (int)file->count;
}

const attn_stored *attn_safetensors_at(const attn_safetensors *file, int index)
{
    return &file->tensors[index];
}

const attn_stored *attn_safetensors_find(const attn_safetensors *file, const char *name)
{
    const attn_stored wanted = {.name = name}, *key = &wanted;
    const attn_stored *const *found =
        bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

bool attn_safetensors_refuse_type(const char *what, const attn_stored *stored, attn_error *error)
{
    char quoted[NAME_SHOWN];
    attn_quote(quoted, sizeof quoted, stored->type, strlen(stored->type));
    return attn_safetensors_refuse(what, error, ATTN_UNSUPPORTED, stored->name,
                                   "has elements of type %s, expected F32, F16, BF16 or F64",
                                   quoted);
}

const attn_stored *attn_safetensors_need(const attn_safetensors *file, const char *name,
                                         attn_error *error)
{
    const attn_stored *stored = attn_safetensors_find(file, name);
    if (!stored) {
        attn_safetensors_refuse(file->what, error, ATTN_INVALID, name, "is missing");
        return NULL;
    }
    if (!stored->readable) {
        attn_safetensors_refuse_type(file->what, stored, error);
        return NULL;
    }
    return stored;
}

const char *attn_safetensors_metadata(const attn_safetensors *file, const char *key)
{
    if (file->metadata_count == 0)
        return NULL;
    const attn_metadata wanted = {.key = key},
                        *found = bsearch(&wanted, file->metadata, file->metadata_count,
                                         sizeof wanted, compare_keys);
    return found ? found->value : NULL;
}
