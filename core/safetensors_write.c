/* The safetensors writer: the text in front of the data. jansson builds and escapes it; what the
 * reader would refuse is not written. */
#include "safetensors.h"

#include "attn/quote.h"

#include <endian.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A failed step is out of memory or, when memory was not asked for in vain, text that is not UTF-8.
 * jansson does not tell the two apart; errno, which the caller cleared, does. */
static attn_status refuse(attn_error *error, const char *name, const char *problem)
{
    if (errno == ENOMEM)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a safetensors header");
    char quoted[64];
    attn_quote(quoted, sizeof quoted, name, strlen(name));
    return attn_error_set(error, ATTN_INVALID, NULL, "cannot write %s to safetensors: %s", quoted,
                          problem);
}

static attn_status add_metadata(json_t *root, const attn_metadata *metadata, int count,
                                attn_error *error)
{
    json_t *object = json_object();
    if (json_object_set_new(root, ATTN_METADATA_KEY, object))
        return refuse(error, ATTN_METADATA_KEY, "no memory");
    for (int i = 0; i < count; i++) {
        const char *key = metadata[i].key;
        if (json_object_get(object, key))
            return refuse(error, key, "the key is there twice");
        if (json_object_set_new(object, key, json_string(metadata[i].value)))
            return refuse(error, key, "the key or its value is not UTF-8");
    }
    return ATTN_OK;
}

static json_t *integers(const int64_t *values, int count)
{
    json_t *array = json_array();
    for (int i = 0; array && i < count; i++) {
        if (json_array_append_new(array, json_integer(values[i]))) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* The tensor's entry, or NULL without memory. */
static json_t *make_entry(const attn_stored *tensor, const int64_t offsets[2])
{
    json_t *entry = json_object();
    const char *type = attn_stored_type_of(tensor->dtype)->name;
    if (json_object_set_new(entry, "dtype", json_string(type)) == 0 &&
        json_object_set_new(entry, "shape", integers(tensor->dim, tensor->rank)) == 0 &&
        json_object_set_new(entry, "data_offsets", integers(offsets, 2)) == 0)
        return entry;
    json_decref(entry);
    return NULL;
}

/* What is wrong with the tensor, or NULL; its bytes go to *bytes. */
static const char *fault(const json_t *root, const attn_stored *tensor, int64_t *bytes)
{
    if (*tensor->name == '\0' || strcmp(tensor->name, ATTN_METADATA_KEY) == 0)
        return "no tensor can have that name";
    if (json_object_get(root, tensor->name))
        return "the name is there twice";
    if (tensor->rank < 0 || tensor->rank > ATTN_STORED_RANK_MAX)
        return "it has too many dimensions";
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dim[i] < 0)
            return "a dimension is negative";
    attn_stored measured = *tensor;
    if (!attn_stored_measure(&measured, attn_stored_type_of(tensor->dtype)->bits))
        return "it is too large";
    *bytes = (int64_t)measured.bytes;
    return NULL;
}

static attn_status add_tensors(json_t *root, const attn_stored *tensors, int count,
                               attn_error *error)
{
    int64_t offsets[2] = {0};
    for (int i = 0; i < count; i++) {
        int64_t bytes;
        const char *problem = fault(root, &tensors[i], &bytes);
        if (!problem && __builtin_add_overflow(offsets[0], bytes, &offsets[1]))
            problem = "the data before it are too large";
        if (problem)
            return refuse(error, tensors[i].name, problem);
        if (json_object_set_new(root, tensors[i].name, make_entry(&tensors[i], offsets)))
            return refuse(error, tensors[i].name, "the name is not UTF-8");
        offsets[0] = offsets[1];
    }
    return ATTN_OK;
}

/* Print the header behind its length, with spaces up to the alignment. */
static attn_status print(const json_t *root, unsigned char **header, size_t *header_bytes,
                         attn_error *error)
{
    size_t text = json_dumpb(root, NULL, 0, JSON_COMPACT);
    size_t total = ATTN_SAFETENSORS_PREFIX + text + ATTN_SAFETENSORS_ALIGN - 1;
    total -= total % ATTN_SAFETENSORS_ALIGN;
    if (total - ATTN_SAFETENSORS_PREFIX > ATTN_SAFETENSORS_HEADER_MAX)
        return attn_error_set(error, ATTN_INVALID, NULL,
                              "a safetensors header of %zu bytes is more than the %d allowed",
                              total, ATTN_SAFETENSORS_HEADER_MAX);
    unsigned char *to = text ? malloc(total) : NULL;
    char *json = (char *)to + ATTN_SAFETENSORS_PREFIX;
    if (!to || json_dumpb(root, json, text, JSON_COMPACT) != text) {
        free(to);
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a safetensors header");
    }
    uint64_t length = htole64(total - ATTN_SAFETENSORS_PREFIX);
    memcpy(to, &length, sizeof length);
    memset(json + text, ' ', total - ATTN_SAFETENSORS_PREFIX - text);
    *header = to;
    *header_bytes = total;
    return ATTN_OK;
}

attn_status attn_safetensors_header(const attn_stored *tensors, int count,
                                    const attn_metadata *metadata, int metadata_count,
                                    unsigned char **header, size_t *header_bytes, attn_error *error)
{
    errno = 0;
    json_t *root = json_object();
    attn_status status = root ? ATTN_OK : refuse(error, "", "no memory");
    if (status == ATTN_OK && metadata_count > 0)
        status = add_metadata(root, metadata, metadata_count, error);
    if (status == ATTN_OK)
        status = add_tensors(root, tensors, count, error);
    if (status == ATTN_OK)
        status = print(root, header, header_bytes, error);
    json_decref(root);
    return status;
}
