/* The tensors of one checkpoint folder: model.safetensors, or the shards that
 * model.safetensors.index.json lists, mapped read-only.
 *
 * Weights that a product reads stay as they are stored, so that a 16-bit checkpoint costs 16 bits
 * and processes share its pages (attn_matrix); what is small, or must lie otherwise, becomes
 * float32 (attn_weights_floats, attn_weights_transposed). Whatever is handed out belongs to the
 * attn_weights and lives as long as it does.
 *
 * Folder and files are hostile: whatever they hold, they are refused in a sentence that names file,
 * tensor and reason, in time linear in their bytes (and that of sorting names). Numbers are checked
 * to be finite when a tensor is first taken, once; tensors that nobody takes are never read.
 *
 * The files are mapped, not copied: replace one by renaming another over it. Cutting one short in
 * place ends the process (SIGBUS), as with every mapped file. Links are followed, since download
 * caches are made of them.
 *
 * Taking tensors belongs to loading and to one thread; afterwards everything here is read-only.
 *
 * Names come in two parts, `prefix` and `name`, joined as they are ("layers.3." and "norm.weight");
 * the prefix may be "". */
#ifndef CORE_MODEL_WEIGHTS_H
#define CORE_MODEL_WEIGHTS_H

#include "attn/safetensors.h"
#include "model/matrix.h"

enum {
    ATTN_ANY = -1 /* an expected dimension that may be anything */
};

/* Rank and dimensions that are expected, as two arguments: ATTN_DIMS(hidden, ATTN_ANY). */
#define ATTN_DIMS(...)                                                                 \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                                  \
        __VA_ARGS__                                                                    \
    }

typedef struct attn_weights attn_weights;

/* Open `<folder>/<stem>.safetensors`, else the shards of `<folder>/<stem>.safetensors.index.json`.
 * The stem is "model" or "adapter_model". Tensors of a shard that the index does not list are left
 * out; its metadata ("total_size") is not believed and not read.
 *
 * NULL with ATTN_INVALID (no such file, not a regular file, unreadable, only formats that can hold
 * code or are not safetensors), ATTN_MALFORMED (file or index is not what it claims) or
 * ATTN_NO_MEMORY. */
attn_weights *attn_weights_open(const char *folder, const char *stem, attn_error *error);
void attn_weights_close(attn_weights *weights);

/* Bytes of files mapped, and bytes of float32 copies on the heap (grows as tensors are taken). */
size_t attn_weights_mapped_bytes(const attn_weights *weights);
size_t attn_weights_owned_bytes(const attn_weights *weights);

/* Every tensor, in the order of the names (strcmp's). */
int attn_weights_count(const attn_weights *weights);
const attn_stored *attn_weights_at(const attn_weights *weights, int index);

/* The tensor of that name, or NULL. */
const attn_stored *attn_weights_find(const attn_weights *weights, const char *prefix,
                                     const char *name);

/* How many layers there are: one more than the largest N < `most` of a tensor named
 * "<prefix>N.…"; 0 for none. Whether the smaller ones are there is seen when they are taken. */
int attn_weights_layers(const attn_weights *weights, const char *prefix, int most);

/* The tensor of that name, which is there, of a readable type and of the expected shape; use
 * ATTN_DIMS. Else NULL: ATTN_INVALID names file, tensor, expected and found; ATTN_UNSUPPORTED names
 * the type. Does not look at the numbers. */
const attn_stored *attn_weights_need(const attn_weights *weights, const char *prefix,
                                     const char *name, int rank, const int64_t *dims,
                                     attn_error *error);

/* The tensor as a matrix (rows, columns), either of which may be ATTN_ANY: mapped, except for FP64
 * and unaligned FP32, which become owned float32. Errors: those of attn_weights_need, ATTN_INVALID
 * for a number that is not finite in float32 (names its position), ATTN_NO_MEMORY. */
attn_status attn_weights_matrix(attn_weights *weights, const char *prefix, const char *name,
                                int64_t rows, int64_t columns, attn_matrix *matrix,
                                attn_error *error);

/* The tensor as float32, row-major: where it lies if it is aligned FP32, else an owned copy. For
 * what is used whole: biases, norms, convolutions, A_log, D, Linformer's compress_k. Asked again,
 * gives the same array. NULL: as attn_weights_matrix. */
const float *attn_weights_floats(attn_weights *weights, const char *prefix, const char *name,
                                 int rank, const int64_t *dims, attn_error *error);

/* The tensor (rows, columns) as float32 (columns, rows): Linformer's E, stored (seq_len, k), as the
 * (k, seq_len) that the mixer reads. Else as attn_weights_floats. */
const float *attn_weights_transposed(attn_weights *weights, const char *prefix, const char *name,
                                     int64_t rows, int64_t columns, attn_error *error);

#endif
