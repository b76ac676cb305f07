/* The tensors of a model that nobody trained: names and shapes as a checkpoint has them, numbers
 * drawn from a seed. Enough to try the machinery with; what it answers means nothing.
 *
 * All are FP32 but Linformer's E, one (seq_len, k) for keys and values, which is BF16.
 *
 * Nothing is held in memory but the list: a tensor's elements are drawn by position, in any parts,
 * and are the same on every machine. Matrices are normal with variance 1 / (last dimension), which
 * is Linear's fan-in and Linformer's k; norms and Mamba's D are 1 and its convolution bias 0. As in
 * Mamba (Gu and Dao 2023, section 3.6) A_log is ln(1..N) and softplus(dt_proj.bias) lies
 * log-uniformly between 0.001 and 0.1. */
#ifndef ATTN_UNTRAINED_H
#define ATTN_UNTRAINED_H

#include "attn/backend.h"
#include "attn/safetensors.h"

/* Mamba's sizes. */
enum {
    ATTN_UNTRAINED_D_STATE = 16,
    ATTN_UNTRAINED_D_CONV = 4,
    ATTN_UNTRAINED_EXPAND = 2,
};

/* ceil(hidden / 16) */
int64_t attn_untrained_dt_rank(int64_t hidden);

enum {
    ATTN_UNTRAINED_MIXERS_MAX = 64
};

/* All sizes are >= 1; kv_heads divides heads, heads divides hidden. */
typedef struct attn_untrained_spec {
    int64_t hidden, heads, kv_heads;
    int64_t seq_len, k; /* of E */
    uint64_t seed;
    int layers;
    bool stack; /* tensors are named "layers.N.…", each layer has an RMSNorm before it, and E is one
                   for all; else there is one layer, prefixes "attn." and "mamba." where it has
                   both */
    int mixers; /* 1..ATTN_UNTRAINED_MIXERS_MAX; layer i has parts[i % mixers] */
    unsigned parts[ATTN_UNTRAINED_MIXERS_MAX]; /* ATTN_PART_... */
} attn_untrained_spec;

typedef struct attn_untrained attn_untrained;

/* The list of tensors. NULL with ATTN_NO_MEMORY, or ATTN_INVALID when they are more bytes than can
 * be counted. */
attn_untrained *attn_untrained_open(const attn_untrained_spec *spec, attn_error *error);
void attn_untrained_close(attn_untrained *untrained);

/* The tensors in the order of their data, as attn_safetensors_header takes them (data is NULL), and
 * the sum of their bytes. Borrowed. */
int attn_untrained_count(const attn_untrained *untrained);
const attn_stored *attn_untrained_tensors(const attn_untrained *untrained);
size_t attn_untrained_bytes(const attn_untrained *untrained);

/* Write elements [first, first + count) of tensor `index` to `to`, little-endian, in its dtype. */
void attn_untrained_fill(const attn_untrained *untrained, int index, size_t first, size_t count,
                         void *to);

#endif
