/* A table of what a tensor is called, how large it is and how it is drawn; the rest walks it once a
 * layer. A tensor's stream of random numbers follows from its layer and its line in the table, so
 * that it is the same whichever parts stand beside it. */
#include "attn/untrained.h"

#include "plain_math.h"
#include "random.h"
#include "safetensors.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PART_NORM = 1 << 3, /* beside the public parts: what every layer of a stack has */
    RANK_MOST = 3,
    NAME_BYTES = 40
};

typedef enum draw {
    NORMAL, /* variance 1 / (last dimension) */
    ZERO,
    ONE,
    DECAY,     /* ln(1..N) */
    TIME_STEP, /* the inverse of softplus, log-uniform */
} draw;

typedef enum axis {
    NONE,
    HIDDEN, /* also what all query heads have together */
    KEYS,   /* kv_heads * head_dim */
    SEQ_LEN,
    K,
    INNER,       /* expand * hidden */
    TWICE_INNER, /* x and z */
    SINGLE,
    CONV,
    STEP_RANK,
    SELECTIVE, /* dt, B and C */
    STATE,
    AXES
} axis;

typedef struct kind {
    unsigned part;
    const char *name;
    axis axes[RANK_MOST];
    draw draw;
    attn_dtype dtype;
} kind;

static const kind kinds[] = {
    {PART_NORM, "norm.weight", {HIDDEN}, ONE, ATTN_FP32},
    {ATTN_PART_ATTENTION, "q_proj.weight", {HIDDEN, HIDDEN}, NORMAL, ATTN_FP32},
    {ATTN_PART_ATTENTION, "k_proj.weight", {KEYS, HIDDEN}, NORMAL, ATTN_FP32},
    {ATTN_PART_ATTENTION, "v_proj.weight", {KEYS, HIDDEN}, NORMAL, ATTN_FP32},
    {ATTN_PART_ATTENTION, "out_proj.weight", {HIDDEN, HIDDEN}, NORMAL, ATTN_FP32},
    {ATTN_PART_PROJECTION, "E", {SEQ_LEN, K}, NORMAL, ATTN_BF16},
    {ATTN_PART_MAMBA, "in_proj.weight", {TWICE_INNER, HIDDEN}, NORMAL, ATTN_FP32},
    {ATTN_PART_MAMBA, "conv1d.weight", {INNER, SINGLE, CONV}, NORMAL, ATTN_FP32},
    {ATTN_PART_MAMBA, "conv1d.bias", {INNER}, ZERO, ATTN_FP32},
    {ATTN_PART_MAMBA, "x_proj.weight", {SELECTIVE, INNER}, NORMAL, ATTN_FP32},
    {ATTN_PART_MAMBA, "dt_proj.weight", {INNER, STEP_RANK}, NORMAL, ATTN_FP32},
    {ATTN_PART_MAMBA, "dt_proj.bias", {INNER}, TIME_STEP, ATTN_FP32},
    {ATTN_PART_MAMBA, "A_log", {INNER, STATE}, DECAY, ATTN_FP32},
    {ATTN_PART_MAMBA, "D", {INNER}, ONE, ATTN_FP32},
    {ATTN_PART_MAMBA, "out_proj.weight", {HIDDEN, INNER}, NORMAL, ATTN_FP32},
};
enum {
    KINDS = sizeof kinds / sizeof *kinds
};

typedef struct entry {
    char name[NAME_BYTES];
    const kind *kind;
    uint64_t stream;
    double deviation; /* of NORMAL */
} entry;

struct attn_untrained {
    attn_untrained_spec spec;
    int64_t extent[AXES];
    int count;
    size_t bytes;
    attn_stored *tensors;
    entry *entries; /* one for each tensor */
};

int64_t attn_untrained_dt_rank(int64_t hidden)
{
    const int64_t per_rank = 16;
    return (hidden + per_rank - 1) / per_rank;
}

static void measure(int64_t extent[AXES], const attn_untrained_spec *spec)
{
    int64_t inner = ATTN_UNTRAINED_EXPAND * spec->hidden;
    int64_t step_rank = attn_untrained_dt_rank(spec->hidden);
    extent[HIDDEN] = spec->hidden;
    extent[KEYS] = spec->hidden / spec->heads * spec->kv_heads;
    extent[SEQ_LEN] = spec->seq_len;
    extent[K] = spec->k;
    extent[INNER] = inner;
    extent[TWICE_INNER] = 2 * inner;
    extent[SINGLE] = 1;
    extent[CONV] = ATTN_UNTRAINED_D_CONV;
    extent[STEP_RANK] = step_rank;
    extent[SELECTIVE] = step_rank + 2 * ATTN_UNTRAINED_D_STATE;
    extent[STATE] = ATTN_UNTRAINED_D_STATE;
}

static void spell(char name[NAME_BYTES], const attn_untrained_spec *spec, int layer, unsigned parts,
                  const kind *k)
{
    bool shared = k->part == ATTN_PART_PROJECTION && spec->stack;
    bool both = (parts & ATTN_PART_ATTENTION) && (parts & ATTN_PART_MAMBA);
    if (spec->stack && !shared)
        snprintf(name, NAME_BYTES, "layers.%d.%s", layer, k->name);
    else if (both && !spec->stack)
        snprintf(name, NAME_BYTES, "%s.%s", k->part == ATTN_PART_MAMBA ? "mamba" : "attn", k->name);
    else
        snprintf(name, NAME_BYTES, "%s", k->name);
}

/* False when the bytes pass what can be counted. */
static bool add(attn_untrained *u, int layer, unsigned parts, const kind *k)
{
    attn_stored *tensor = &u->tensors[u->count];
    entry *e = &u->entries[u->count++];
    spell(e->name, &u->spec, layer, parts, k);
    e->kind = k;
    e->stream = (uint64_t)layer * KINDS + (uint64_t)(k - kinds);
    *tensor = (attn_stored){.name = e->name, .dtype = k->dtype, .readable = true};
    for (; tensor->rank < RANK_MOST && k->axes[tensor->rank] != NONE; tensor->rank++)
        tensor->dim[tensor->rank] = u->extent[k->axes[tensor->rank]];
    e->deviation = 1 / sqrt((double)tensor->dim[tensor->rank - 1]);
    const attn_stored_type *type = attn_stored_type_of(k->dtype);
    tensor->type = type->name;
    return attn_stored_measure(tensor, type->bits) &&
           !__builtin_add_overflow(u->bytes, tensor->bytes, &u->bytes);
}

static bool list(attn_untrained *u)
{
    bool shared_there = false, countable = true;
    for (int layer = 0; layer < u->spec.layers; layer++) {
        unsigned parts = u->spec.parts[layer % u->spec.mixers];
        if (u->spec.stack)
            parts |= PART_NORM;
        for (const kind *k = kinds; k < kinds + KINDS && countable; k++) {
            bool shared = k->part == ATTN_PART_PROJECTION;
            if (!(k->part & parts) || (shared && shared_there))
                continue;
            shared_there |= shared;
            countable = add(u, shared ? 0 : layer, parts, k);
        }
    }
    return countable;
}

attn_untrained *attn_untrained_open(const attn_untrained_spec *spec, attn_error *error)
{
    size_t most = (size_t)spec->layers * KINDS;
    attn_untrained *u = calloc(1, sizeof *u);
    attn_stored *tensors = calloc(most, sizeof *tensors);
    entry *entries = calloc(most, sizeof *entries);
    if (!u || !tensors || !entries) {
        free(u);
        free(tensors);
        free(entries);
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a list of %zu tensors", most);
        return NULL;
    }
    *u = (attn_untrained){.spec = *spec, .tensors = tensors, .entries = entries};
    measure(u->extent, spec);
    if (list(u))
        return u;
    attn_error_set(error, ATTN_INVALID, NULL,
                   "%d layers of hidden size %lld are more bytes than can be counted; ask for less",
                   spec->layers, (long long)spec->hidden);
    attn_untrained_close(u);
    return NULL;
}

void attn_untrained_close(attn_untrained *untrained)
{
    if (!untrained)
        return;
    free(untrained->tensors);
    free(untrained->entries);
    free(untrained);
}

int attn_untrained_count(const attn_untrained *untrained)
{
    return untrained->count;
}

const attn_stored *attn_untrained_tensors(const attn_untrained *untrained)
{
    return untrained->tensors;
}

size_t attn_untrained_bytes(const attn_untrained *untrained)
{
    return untrained->bytes;
}

/* b with softplus(b) = ln(1 + e^b) = dt, and ln dt uniform. */
static double time_step(uint64_t bits)
{
    const double least = 0.001, most = 0.1;
    double uniform = (double)(bits >> 11) * 0x1p-53;
    double dt = least * attn_plain_exp(uniform * attn_plain_log(most / least));
    return attn_plain_log(attn_plain_exp(dt) - 1);
}

static float element(const entry *e, uint64_t seed, uint64_t index)
{
    switch (e->kind->draw) {
    case NORMAL:
        return (float)(attn_random_normal(seed, e->stream, index) * e->deviation);
    case TIME_STEP:
        /* A normal's stream s takes 2 s and 2 s + 1 of the bits. */
        return (float)time_step(attn_random_bits(seed, 2 * e->stream, index));
    case DECAY:
        return (float)attn_plain_log((double)(index % ATTN_UNTRAINED_D_STATE + 1));
    case ONE:
        return 1;
    case ZERO:
        break;
    }
    return 0;
}

static unsigned char *put_bf16(unsigned char *to, float value)
{
    uint16_t bits = htole16(attn_bf16_from_float(value));
    memcpy(to, &bits, sizeof bits);
    return to + sizeof bits;
}

static unsigned char *put_fp32(unsigned char *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole32(bits);
    memcpy(to, &bits, sizeof bits);
    return to + sizeof bits;
}

void attn_untrained_fill(const attn_untrained *untrained, int index, size_t first, size_t count,
                         void *to)
{
    const entry *e = &untrained->entries[index];
    unsigned char *next = to;
    for (size_t i = first; i < first + count; i++) {
        float value = element(e, untrained->spec.seed, i);
        next = e->kind->dtype == ATTN_BF16 ? put_bf16(next, value) : put_fp32(next, value);
    }
}
