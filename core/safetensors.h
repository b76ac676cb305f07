/* What the files of the safetensors reader and writer share; core/model speaks of tensors as they
 * do.
 */
#ifndef CORE_SAFETENSORS_H
#define CORE_SAFETENSORS_H

#include "attn/safetensors.h"

#define ATTN_METADATA_KEY "__metadata__"

enum {
    ATTN_WHAT_MAX = 64 /* bytes of a file's name that sentences show */
};

struct attn_safetensors {
    char what[ATTN_WHAT_MAX];
    const char *header; /* borrowed, as are the data */
    const unsigned char *data;
    size_t header_bytes, data_bytes;
    char *text; /* names, types and metadata, each ended by a zero byte */
    size_t text_used;
    attn_stored *tensors;
    size_t count, capacity;
    const attn_stored **by_name;
    attn_metadata *metadata;
    size_t metadata_count, metadata_capacity;
};

/* An element type of the format. */
typedef struct attn_stored_type {
    const char *name;
    int bits;
    bool readable;
    attn_dtype dtype;
} attn_stored_type;

/* The type of that name, or NULL. */
const attn_stored_type *attn_stored_type_find(const char *name);
const attn_stored_type *attn_stored_type_of(attn_dtype dtype);

/* Fill count and bytes from rank, dim and `bits` an element. False when they pass int64_t (a size
 * of 0 does not excuse the others) or end inside a byte. */
bool attn_stored_measure(attn_stored *stored, int bits);

/* Set the error to "<what>: tensor "<name>" <problem>", or "<what>: <problem>" without a name.
 * Returns false, so that a refusal is one line. */
bool attn_safetensors_refuse(const char *what, attn_error *error, attn_status status,
                             const char *name, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The same for a tensor whose elements are not readable. */
bool attn_safetensors_refuse_type(const char *what, const attn_stored *stored, attn_error *error);

/* Read the JSON of file->header into the lists, in its order. */
bool attn_safetensors_parse(attn_safetensors *file, attn_error *error);

#endif
