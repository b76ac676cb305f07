/* What the files of attn_weights share. */
#ifndef CORE_MODEL_WEIGHTS_FILES_H
#define CORE_MODEL_WEIGHTS_FILES_H

#include "model/file.h"
#include "model/weights.h"
#include "safetensors.h"

typedef struct attn_shard {
    attn_file file;
    attn_safetensors *tensors;
} attn_shard;

/* A tensor of the checkpoint, and what was made of it. */
typedef struct attn_entry {
    const attn_stored *stored;
    const char *what;  /* its file, as sentences show it */
    bool finite;       /* known to be */
    float *floats;     /* owned, or NULL */
    float *transposed; /* owned, or NULL */
} attn_entry;

struct attn_weights {
    char what[ATTN_WHAT_MAX]; /* the file, or the index of several */
    attn_shard *shards;
    size_t shard_count;
    attn_entry *entries; /* by name */
    size_t entry_count;
    size_t mapped_bytes, owned_bytes;
};

/* Those that return a bool have set the error when it is false. */

/* Map one more shard; there is room for it in the list. */
bool attn_weights_map(attn_weights *weights, const char *path, attn_error *error);

/* Zeroed room for `count` elements, owned by the caller, or NULL. */
void *attn_weights_list(const attn_weights *weights, size_t count, size_t bytes, attn_error *error);

/* Add a tensor of the shard mapped last; there is room for it in the list. */
void attn_weights_add(attn_weights *weights, const attn_stored *stored);

/* Map the shards that the index lists, and fill in the entries, in any order. */
bool attn_weights_read_index(attn_weights *weights, const char *folder, const char *path,
                             attn_error *error);

/* The entry of that name, or NULL. */
attn_entry *attn_weights_entry(const attn_weights *weights, const char *prefix, const char *name);

#endif
