/* safetensors: named tensors behind a JSON header, as in
 * https://github.com/huggingface/safetensors (section "Format" of its README).
 *
 *   8 bytes   N, little-endian
 *   N bytes   {"__metadata__": {"key": "value"},
 *              "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *   the rest  the data; the offsets count from its beginning and cover it once, without holes
 *
 * The reader takes the header for hostile: every length, offset and name is checked before use, and
 * what it hands out lies inside the bytes it was given. It judges layout only; whether the numbers
 * are finite is for whoever converts them. */
#ifndef ATTN_SAFETENSORS_H
#define ATTN_SAFETENSORS_H

#include "attn/dtype.h"
#include "attn/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ATTN_STORED_RANK_MAX = 8,
    ATTN_SAFETENSORS_ALIGN = 64,                     /* bytes: where a written text's data begin */
    ATTN_SAFETENSORS_PREFIX = 8,                     /* bytes: the length in front of the header */
    ATTN_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000, /* bytes, as in the reference implementation */
};

/* A tensor inside a safetensors text. A reader's are borrowed from it. */
typedef struct attn_stored {
    const char *name; /* UTF-8, not empty */
    attn_dtype dtype; /* of the elements, when they are readable */
    bool readable;    /* F32, F16, BF16 or F64; others may stand in a file but not be used */
    int rank;         /* 0 (one element) .. ATTN_STORED_RANK_MAX */
    int64_t dim[ATTN_STORED_RANK_MAX]; /* each >= 0; those that are not 0 multiply to an int64_t */
    const char *type; /* the element type as the header spells it: "F32", "I64", "F8_E4M3" */
    size_t count;     /* of elements */
    size_t bytes;     /* of data */
    const unsigned char *data; /* little-endian, row-major, aligned to nothing */
} attn_stored;

/* One entry of "__metadata__": both UTF-8, neither NULL. */
typedef struct attn_metadata {
    const char *key, *value;
} attn_metadata;

typedef struct attn_safetensors attn_safetensors;

/* Read the header of `size` bytes, which stay borrowed until closing. `what` names the file or body
 * in sentences and is copied. Time is that of sorting the names; heap is less than nine times the
 * header and 4 MB, whatever the numbers in it say.
 *
 * NULL with ATTN_MALFORMED (says where, and names the tensor), ATTN_UNSUPPORTED (more dimensions
 * than ATTN_STORED_RANK_MAX) or ATTN_NO_MEMORY. The error's param is the tensor's name. */
attn_safetensors *attn_safetensors_open(const void *bytes, size_t size, const char *what,
                                        attn_error *error);
void attn_safetensors_close(attn_safetensors *file);

/* Tensors in the order of their data; those without data by name. */
int attn_safetensors_count(const attn_safetensors *file);
const attn_stored *attn_safetensors_at(const attn_safetensors *file, int index);

/* The tensor of that name, or NULL. */
const attn_stored *attn_safetensors_find(const attn_safetensors *file, const char *name);

/* The tensor of that name, which is there and readable; else NULL with ATTN_INVALID (there is none)
 * or ATTN_UNSUPPORTED (names its type). */
const attn_stored *attn_safetensors_need(const attn_safetensors *file, const char *name,
                                         attn_error *error);

/* The value of that key of "__metadata__", or NULL. */
const char *attn_safetensors_metadata(const attn_safetensors *file, const char *key);

/* Make the text that goes before the data of `count` tensors that follow each other without gaps:
 * length, header, and spaces up to a multiple of ATTN_SAFETENSORS_ALIGN bytes. Of the tensors name,
 * dtype, rank and dim are read. On success the caller frees *header. ATTN_INVALID names the tensor
 * or key that no reader would take; ATTN_NO_MEMORY. */
attn_status attn_safetensors_header(const attn_stored *tensors, int count,
                                    const attn_metadata *metadata, int metadata_count,
                                    unsigned char **header, size_t *header_bytes,
                                    attn_error *error);

#endif
