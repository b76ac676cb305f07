/* Tensors of a safetensors body, used where they lie or converted. */
#include "server/attend/source_file.h"

#include "attn/safetensors.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_HEADER_BYTES = SRV_BODY_REST_MAX,
};

typedef struct stored_tensor {
    const attn_stored *stored; /* NULL: the body has none of this name */
    srv_tensor tensor;
    bool owned; /* the data were converted, or copied to where floats may lie */
} stored_tensor;

struct srv_source_file {
    const srv_request *request;
    attn_safetensors *header; /* NULL: not read yet */
    stored_tensor tensors[SRV_TENSOR_NAMES];
    int next;         /* tensor to convert */
    size_t converted; /* elements of it that are */
};

static uint64_t little_endian(const unsigned char bytes[ATTN_SAFETENSORS_PREFIX])
{
    uint64_t value = 0;
    for (int i = ATTN_SAFETENSORS_PREFIX - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

size_t srv_source_file_lead(const char *start, size_t size)
{
    if (size < ATTN_SAFETENSORS_PREFIX)
        return 0;
    return (size_t)(-little_endian((const unsigned char *)start) % sizeof(float));
}

srv_source_file *srv_source_file_open(const srv_request *request)
{
    srv_source_file *file = calloc(1, sizeof *file);
    if (file)
        file->request = request;
    return file;
}

static attn_status note_tensor(srv_source_file *file, const attn_stored *stored, attn_error *error)
{
    int i = srv_tensor_find(stored->name);
    if (i < 0)
        return attn_error_set(error, ATTN_INVALID, "body",
                              "the body holds a tensor \"%.40s\"; known are q, k, v, e, f, omega, "
                              "input and key_mask",
                              stored->name);
    if (!stored->readable)
        return attn_error_set(error, ATTN_INVALID, srv_tensor_names[i],
                              "%s has dtype %.16s, expected F32, F16, BF16 or F64",
                              srv_tensor_names[i], stored->type);
    if (stored->rank < 1 || stored->rank > SRV_RANK_MAX || stored->count == 0)
        return attn_error_set(error, ATTN_INVALID, srv_tensor_names[i],
                              "%s has rank %d and %zu elements, expected rank 1 to %d and at least "
                              "one element",
                              srv_tensor_names[i], stored->rank, stored->count, SRV_RANK_MAX);
    stored_tensor *t = &file->tensors[i];
    t->stored = stored;
    t->tensor = (srv_tensor){.count = stored->count, .rank = stored->rank, .form = SRV_FORM_FLAT};
    memcpy(t->tensor.dim, stored->dim, (size_t)stored->rank * sizeof *stored->dim);
    return ATTN_OK;
}

static bool must_convert(const attn_stored *stored)
{
    return stored->dtype != ATTN_FP32 || (uintptr_t)stored->data % sizeof(float) != 0;
}

/* The one tensor that may stand in the query string: key_mask=1,1,0 is [m]. */
static attn_status read_query_mask(srv_source_file *file, const char *text, attn_error *error)
{
    stored_tensor *t = &file->tensors[srv_tensor_find("key_mask")];
    size_t length = strlen(text), count = (length + 1) / 2;
    bool listed = length % 2 == 1 && strspn(text, "01,") == length;
    for (size_t i = 0; listed && i < length; i++)
        listed = (text[i] == ',') == (i % 2 == 1);
    if (!listed || t->stored || t->owned)
        return attn_error_set(error, ATTN_INVALID, "key_mask",
                              "key_mask: expected 0 or 1 for each key with commas between, once, "
                              "here or in the body");
    t->tensor = (srv_tensor){.count = count, .rank = 1, .dim = {(int64_t)count}};
    t->tensor.data = malloc(count * sizeof(float));
    t->owned = true;
    if (!t->tensor.data)
        return ATTN_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        t->tensor.data[i] = (float)(text[2 * i] - '0');
    return ATTN_OK;
}

static attn_status read_query_tensors(srv_source_file *file, attn_error *error)
{
    const srv_request *request = file->request;
    attn_status status = ATTN_OK;
    for (int i = 0; status == ATTN_OK && i < request->query_count; i++) {
        const srv_pair *pair = &request->query[i];
        if (strcmp(pair->name, "key_mask") == 0)
            status = read_query_mask(file, pair->value, error);
        else if (srv_tensor_find(pair->name) >= 0)
            status = attn_error_set(error, ATTN_INVALID, pair->name,
                                    "%s is a tensor and belongs in the body", pair->name);
    }
    return status;
}

static attn_status open_header(srv_source_file *file, attn_error *error)
{
    const srv_request *request = file->request;
    bool short_of_prefix = request->body_length < ATTN_SAFETENSORS_PREFIX;
    bool over =
        !short_of_prefix && little_endian((const unsigned char *)request->body) > MOST_HEADER_BYTES;
    if (request->body_length > 0 && request->body[0] == '{' && (short_of_prefix || over))
        return attn_error_set(error, ATTN_MALFORMED, "body",
                              "the body looks like JSON, not like safetensors; send it with "
                              "Content-Type: " SRV_JSON_TYPE);
    if (over)
        return attn_error_set(error, ATTN_MALFORMED, "body",
                              "the body's safetensors header is over the limit of %d bytes",
                              MOST_HEADER_BYTES);
    file->header = attn_safetensors_open(request->body, request->body_length, "the body", error);
    attn_status status = file->header ? ATTN_OK : error->status;
    for (int i = 0; status == ATTN_OK && i < attn_safetensors_count(file->header); i++)
        status = note_tensor(file, attn_safetensors_at(file->header, i), error);
    return status == ATTN_OK ? read_query_tensors(file, error) : status;
}

/* Check `count` elements from `from` on. */
static attn_status check_finite(const char *name, const srv_tensor *tensor, size_t from,
                                size_t count, attn_error *error)
{
    size_t bad = from + attn_first_non_finite(tensor->data + from, count);
    if (bad == from + count)
        return ATTN_OK;
    int64_t index[SRV_RANK_MAX];
    char path[SRV_PATH_MAX];
    srv_tensor_index(index, tensor->dim, tensor->rank, (int64_t)bad);
    srv_tensor_path(path, name, index, tensor->rank);
    return attn_error_set(error, ATTN_INVALID, path, "%s: found %g, expected a finite float32",
                          path, (double)tensor->data[bad]);
}

/* Use float32 where it lies; anything else will be converted or moved, once. */
static attn_status place(stored_tensor *t)
{
    t->owned = must_convert(t->stored);
    t->tensor.data = t->owned ? malloc(t->stored->count * sizeof(float))
                              : (float *)(void *)(uintptr_t)t->stored->data;
    return t->tensor.data ? ATTN_OK : ATTN_NO_MEMORY;
}

/* Make about `bytes` more of the next tensor, and pass on to the one after it at its end. */
static attn_status convert(srv_source_file *file, size_t bytes, attn_error *error)
{
    stored_tensor *t = &file->tensors[file->next];
    const attn_stored *stored = t->stored;
    const char *name = srv_tensor_names[file->next];
    size_t from = file->converted, left = stored->count - from, count = bytes / sizeof(float);
    if (from == 0 && place(t) != ATTN_OK)
        return ATTN_NO_MEMORY;
    count = count < 1 ? 1 : count < left ? count : left;
    if (t->owned)
        attn_dtype_to_float(stored->dtype,
                            (const char *)stored->data + from * attn_dtype_bytes(stored->dtype),
                            count, t->tensor.data + from);
    file->converted = count < left ? from + count : 0;
    file->next += count == left;
    return check_finite(name, &t->tensor, from, count, error);
}

/* The header first, then slices of one tensor after the other. */
srv_body_step srv_source_file_read(srv_source_file *file, size_t bytes, attn_error *error)
{
    attn_status status = ATTN_OK;
    if (!file->header) {
        status = open_header(file, error);
    } else {
        while (file->next < SRV_TENSOR_NAMES && !file->tensors[file->next].stored)
            file->next++;
        if (file->next == SRV_TENSOR_NAMES)
            return SRV_BODY_DONE;
        status = convert(file, bytes, error);
    }
    if (status == ATTN_OK)
        return SRV_BODY_MORE;
    attn_error_set(error, status, NULL, "no memory for the tensors; try again later");
    return SRV_BODY_FAULT;
}

const srv_tensor *srv_source_file_tensor(const srv_source_file *file, int name)
{
    const stored_tensor *t = &file->tensors[name];
    return t->stored || t->owned ? &t->tensor : NULL;
}

size_t srv_source_file_bytes(const srv_source_file *file)
{
    size_t bytes = 0;
    for (int i = 0; i < SRV_TENSOR_NAMES; i++) {
        const attn_stored *stored = file->tensors[i].stored;
        if (stored && must_convert(stored))
            bytes += stored->count * sizeof(float);
    }
    return bytes;
}

void srv_source_file_close(srv_source_file *file)
{
    if (!file)
        return;
    for (int i = 0; i < SRV_TENSOR_NAMES; i++)
        if (file->tensors[i].owned)
            free(file->tensors[i].tensor.data);
    attn_safetensors_close(file->header);
    free(file);
}
