#include "tests/support/stored.h"

#include "attn/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFIX = ATTN_SAFETENSORS_PREFIX
};

void *stored_memory(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

stored_text stored_text_make(const char *header, size_t length, size_t data_bytes)
{
    stored_text made = {.size = PREFIX + length + data_bytes};
    made.bytes = stored_memory(made.size);
    for (int i = 0; i < PREFIX; i++)
        made.bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(made.bytes + PREFIX, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        made.bytes[PREFIX + length + i] = (unsigned char)i;
    return made;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            return false;
    return true;
}

static const char *error_fault(const attn_error *error)
{
    if (error->status != ATTN_MALFORMED && error->status != ATTN_UNSUPPORTED)
        return "a refusal has an odd status";
    if (strncmp(error->message, "the text: ", 10) != 0)
        return "a refusal does not name the text";
    if (!is_printable(error->message) || !is_printable(error->param))
        return "a refusal cannot be printed";
    return NULL;
}

static bool same_numbers(const json_t *array, const int64_t *numbers, int count)
{
    bool same = json_array_size(array) == (size_t)count;
    for (int i = 0; same && i < count; i++)
        same = json_integer_value(json_array_get(array, (size_t)i)) == numbers[i];
    return same;
}

/* Convert a tensor, for the sanitizers to watch. */
static bool touch(const attn_stored *stored)
{
    float *to = malloc((stored->count + 1) * sizeof *to);
    if (!to)
        return false;
    attn_dtype_to_float(stored->dtype, stored->data, stored->count, to);
    free(to);
    return true;
}

static const char *tensor_fault(const attn_safetensors *file, const attn_stored *stored,
                                const json_t *entry, const unsigned char *data, size_t begin)
{
    int64_t offsets[2] = {(int64_t)begin, (int64_t)(begin + stored->bytes)};
    attn_error error = {0};
    if (!entry)
        return "jansson does not read that tensor";
    if (attn_safetensors_find(file, stored->name) != stored)
        return "a tensor is not found by its name";
    if (stored->data != data + begin ||
        !same_numbers(json_object_get(entry, "data_offsets"), offsets, 2))
        return "the data are elsewhere";
    if (!same_numbers(json_object_get(entry, "shape"), stored->dim, stored->rank))
        return "the shape differs";
    if (strcmp(json_string_value(json_object_get(entry, "dtype")), stored->type) != 0)
        return "the type differs";
    if (stored->readable && stored->bytes != stored->count * attn_dtype_bytes(stored->dtype))
        return "the bytes do not fit the elements";
    if (stored->readable && !touch(stored))
        return "no memory";
    bool needed = attn_safetensors_need(file, stored->name, &error) != NULL;
    if (needed != stored->readable || !is_printable(error.message))
        return "what may not be read may be needed";
    return NULL;
}

static const char *metadata_fault(const attn_safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        const char *found = attn_safetensors_metadata(file, key);
        if (!found || !json_is_string(value) || strcmp(found, json_string_value(value)) != 0)
            return "metadata differ";
    }
    return NULL;
}

/* Write what was read and read it again: the same tensors must come back. */
static const char *rewrite_fault(const attn_safetensors *file, const unsigned char *data,
                                 size_t data_bytes)
{
    unsigned char *header, *text;
    size_t bytes;
    int count = attn_safetensors_count(file);
    for (int i = 0; i < count; i++)
        if (!attn_safetensors_at(file, i)->readable)
            return NULL;
    if (attn_safetensors_header(count ? attn_safetensors_at(file, 0) : NULL, count, NULL, 0,
                                &header, &bytes, NULL) != ATTN_OK)
        return "what was read cannot be written";
    text = realloc(header, bytes + data_bytes);
    if (!text)
        return "no memory";
    if (data_bytes > 0)
        memcpy(text + bytes, data, data_bytes);
    attn_safetensors *again = attn_safetensors_open(text, bytes + data_bytes, "the text", NULL);
    const char *fault = NULL;
    if (bytes % ATTN_SAFETENSORS_ALIGN != 0)
        fault = "written data would not be aligned";
    else if (!again || attn_safetensors_count(again) != count)
        fault = "what was written cannot be read";
    for (int i = 0; !fault && i < count; i++) {
        const attn_stored *a = attn_safetensors_at(file, i);
        const attn_stored *b = attn_safetensors_find(again, a->name);
        if (!b || b->dtype != a->dtype || b->rank != a->rank || b->bytes != a->bytes ||
            memcmp(b->dim, a->dim, sizeof b->dim) != 0 || memcmp(b->data, a->data, b->bytes) != 0)
            fault = "a tensor came back different";
    }
    attn_safetensors_close(again);
    free(text);
    return fault;
}

static const char *file_fault(const attn_safetensors *file, const unsigned char *bytes, size_t size)
{
    uint64_t length = 0;
    for (int i = 0; i < PREFIX; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    const unsigned char *data = bytes + PREFIX + length;
    json_t *whole =
        json_loadb((const char *)bytes + PREFIX, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
    const char *fault = whole ? NULL : "jansson refuses the header";
    json_t *metadata = json_object_get(whole, "__metadata__");
    int count = attn_safetensors_count(file);
    if (!fault && json_object_size(whole) != (size_t)count + (metadata != NULL))
        fault = "jansson reads another number of tensors";
    size_t covered = 0;
    for (int i = 0; !fault && i < count; i++) {
        const attn_stored *stored = attn_safetensors_at(file, i);
        fault = tensor_fault(file, stored, json_object_get(whole, stored->name), data, covered);
        covered += stored->bytes;
    }
    if (!fault && covered != size - PREFIX - length)
        fault = "the data are not covered";
    if (!fault && metadata)
        fault = metadata_fault(file, metadata);
    json_decref(whole);
    return fault ? fault : rewrite_fault(file, data, covered);
}

const char *stored_fault(const void *bytes, size_t size, bool *accepted)
{
    attn_error error = {0};
    attn_safetensors *file = attn_safetensors_open(bytes, size, "the text", &error);
    *accepted = file != NULL;
    if (!file)
        return error_fault(&error);
    const char *fault = file_fault(file, bytes, size);
    attn_safetensors_close(file);
    return fault;
}
