/* Taking tensors out of a checkpoint: of the expected shape, finite, as stored or as float32. */
#include "model/weights_files.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES = 256, /* of a joined name in sentences, which show less */
    SHAPE_BYTES = 96,
    BLOCK = 1024,    /* elements checked at a time */
    OWNED_ALIGN = 64 /* bytes: a cache line, and the widest vector */
};

/* The expected shape */

static attn_status refuse(const attn_entry *entry, attn_status status, attn_error *error,
                          const char *problem)
{
    attn_safetensors_refuse(entry->what, error, status, entry->stored->name, "%s", problem);
    return status;
}

/* "[4096, any]" */
static void print_dims(char to[SHAPE_BYTES], int rank, const int64_t *dims)
{
    size_t used = (size_t)snprintf(to, SHAPE_BYTES, "[");
    for (int i = 0; i < rank && used < SHAPE_BYTES; i++) {
        size_t room = SHAPE_BYTES - used;
        const char *gap = i ? ", " : "";
        used +=
            (size_t)(dims[i] == ATTN_ANY ? snprintf(to + used, room, "%sany", gap)
                                         : snprintf(to + used, room, "%s%" PRId64, gap, dims[i]));
    }
    if (used < SHAPE_BYTES)
        snprintf(to + used, SHAPE_BYTES - used, "]");
}

static attn_status refuse_shape(const attn_entry *entry, int rank, const int64_t *dims,
                                attn_error *error)
{
    char expected[SHAPE_BYTES], found[SHAPE_BYTES], problem[2 * SHAPE_BYTES + 32];
    print_dims(expected, rank, dims);
    print_dims(found, entry->stored->rank, entry->stored->dim);
    snprintf(problem, sizeof problem, "has the shape %s, expected %s", found, expected);
    return refuse(entry, ATTN_INVALID, error, problem);
}

static bool has_shape(const attn_stored *stored, int rank, const int64_t *dims)
{
    bool same = stored->rank == rank && stored->count > 0;
    for (int i = 0; same && i < rank; i++)
        same = dims[i] == ATTN_ANY || dims[i] == stored->dim[i];
    return same;
}

static attn_status refuse_missing(const attn_weights *weights, const char *prefix, const char *name,
                                  int rank, const int64_t *dims, attn_error *error)
{
    char joined[NAME_BYTES], expected[SHAPE_BYTES];
    snprintf(joined, sizeof joined, "%s%s", prefix, name);
    print_dims(expected, rank, dims);
    attn_safetensors_refuse(weights->what, error, ATTN_INVALID, joined,
                            "is missing, expected one of shape %s", expected);
    return ATTN_INVALID;
}

/* The entry of the expected shape. */
static attn_status need(const attn_weights *weights, const char *prefix, const char *name, int rank,
                        const int64_t *dims, attn_entry **entry, attn_error *error)
{
    *entry = attn_weights_entry(weights, prefix, name);
    if (!*entry)
        return refuse_missing(weights, prefix, name, rank, dims, error);
    if (!(*entry)->stored->readable) {
        attn_safetensors_refuse_type((*entry)->what, (*entry)->stored, error);
        return ATTN_UNSUPPORTED;
    }
    if (!has_shape((*entry)->stored, rank, dims))
        return refuse_shape(*entry, rank, dims, error);
    return ATTN_OK;
}

const attn_stored *attn_weights_need(const attn_weights *weights, const char *prefix,
                                     const char *name, int rank, const int64_t *dims,
                                     attn_error *error)
{
    attn_entry *entry;
    attn_status status = need(weights, prefix, name, rank, dims, &entry, error);
    return status == ATTN_OK ? entry->stored : NULL;
}

/* Finite numbers */

/* "[3][17]" of element `at`. */
static void print_position(char to[SHAPE_BYTES], const attn_stored *stored, size_t at)
{
    size_t below = stored->count, used = 0;
    *to = '\0';
    for (int i = 0; i < stored->rank && used < SHAPE_BYTES; i++) {
        below /= (size_t)stored->dim[i];
        used += (size_t)snprintf(to + used, SHAPE_BYTES - used, "[%zu]", at / below);
        at %= below;
    }
}

static attn_status refuse_number(const attn_entry *entry, size_t at, float value, attn_error *error)
{
    const attn_stored *stored = entry->stored;
    char position[SHAPE_BYTES], problem[SHAPE_BYTES + 64];
    const char *number = isnan(value)                 ? "NaN"
                         : stored->dtype == ATTN_FP64 ? "a number beyond float32"
                                                      : "an infinity";
    print_position(position, stored, at);
    snprintf(problem, sizeof problem, "holds %s at %s, expected finite weights", number, position);
    return refuse(entry, ATTN_INVALID, error, problem);
}

static attn_status check_finite(attn_entry *entry, attn_error *error)
{
    const attn_stored *stored = entry->stored;
    size_t size = attn_dtype_bytes(stored->dtype);
    float block[BLOCK];
    for (size_t at = 0; !entry->finite && at < stored->count; at += BLOCK) {
        size_t count = stored->count - at < BLOCK ? stored->count - at : BLOCK;
        attn_dtype_to_float(stored->dtype, stored->data + at * size, count, block);
        size_t bad = attn_first_non_finite(block, count);
        if (bad < count)
            return refuse_number(entry, at + bad, block[bad], error);
    }
    entry->finite = true;
    return ATTN_OK;
}

/* Memory of our own */

/* Room for the tensor as float32. */
static attn_status own(attn_weights *weights, const attn_entry *entry, float **memory,
                       attn_error *error)
{
    size_t count = entry->stored->count, padding = OWNED_ALIGN / sizeof(float);
    if (count > SIZE_MAX / sizeof(float) - padding)
        return refuse(entry, ATTN_NO_MEMORY, error, "is larger than the address space");
    size_t bytes = (count + padding - 1) / padding * OWNED_ALIGN;
    *memory = aligned_alloc(OWNED_ALIGN, bytes);
    if (!*memory)
        return refuse(entry, ATTN_NO_MEMORY, error, "finds no memory for its numbers as float32");
    weights->owned_bytes += bytes;
    return ATTN_OK;
}

/* Whether a float pointer may read the numbers where the file has them. */
static bool lies_well(const attn_stored *stored)
{
    return stored->dtype == ATTN_FP32 && (uintptr_t)stored->data % _Alignof(float) == 0 &&
           __BYTE_ORDER == __LITTLE_ENDIAN;
}

static attn_status widen(attn_weights *weights, attn_entry *entry, const float **data,
                         attn_error *error)
{
    const attn_stored *stored = entry->stored;
    *data = lies_well(stored) ? (const float *)(const void *)stored->data : entry->floats;
    if (*data)
        return ATTN_OK;
    attn_status status = own(weights, entry, &entry->floats, error);
    if (status == ATTN_OK)
        attn_dtype_to_float(stored->dtype, stored->data, stored->count, entry->floats);
    *data = entry->floats;
    return status;
}

static attn_status transpose(attn_weights *weights, attn_entry *entry, attn_error *error)
{
    const attn_stored *stored = entry->stored;
    attn_status status = own(weights, entry, &entry->transposed, error);
    if (status != ATTN_OK)
        return status;
    int64_t rows = stored->dim[0], columns = stored->dim[1];
    const unsigned char *from = stored->data;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++, from += attn_dtype_bytes(stored->dtype))
            attn_dtype_to_float(stored->dtype, from, 1, &entry->transposed[j * rows + i]);
    return ATTN_OK;
}

/* Ways out */

attn_status attn_weights_matrix(attn_weights *weights, const char *prefix, const char *name,
                                int64_t rows, int64_t columns, attn_matrix *matrix,
                                attn_error *error)
{
    attn_entry *entry;
    attn_status status = need(weights, prefix, name, ATTN_DIMS(rows, columns), &entry, error);
    if (status == ATTN_OK)
        status = check_finite(entry, error);
    if (status != ATTN_OK)
        return status;
    const attn_stored *stored = entry->stored;
    *matrix = (attn_matrix){.data = stored->data,
                            .dtype = stored->dtype,
                            .rows = stored->dim[0],
                            .columns = stored->dim[1]};
    if (stored->dtype == ATTN_FP16 || stored->dtype == ATTN_BF16)
        return ATTN_OK;
    const float *data;
    status = widen(weights, entry, &data, error);
    matrix->data = data;
    matrix->dtype = ATTN_FP32;
    return status;
}

const float *attn_weights_floats(attn_weights *weights, const char *prefix, const char *name,
                                 int rank, const int64_t *dims, attn_error *error)
{
    attn_entry *entry;
    const float *data;
    if (need(weights, prefix, name, rank, dims, &entry, error) == ATTN_OK &&
        check_finite(entry, error) == ATTN_OK && widen(weights, entry, &data, error) == ATTN_OK)
        return data;
    return NULL;
}

const float *attn_weights_transposed(attn_weights *weights, const char *prefix, const char *name,
                                     int64_t rows, int64_t columns, attn_error *error)
{
    attn_entry *entry;
    if (need(weights, prefix, name, ATTN_DIMS(rows, columns), &entry, error) != ATTN_OK ||
        check_finite(entry, error) != ATTN_OK)
        return NULL;
    if (!entry->transposed && transpose(weights, entry, error) != ATTN_OK)
        return NULL;
    return entry->transposed;
}
