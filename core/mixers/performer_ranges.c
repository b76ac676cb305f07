/* How Performer cuts its work: chunks of keys and ranges of features. Cuts go by counted work, as
 * if in pairs of a query and a key that come in blocks, and never by measured time, which would let
 * an answer's last bits depend on the day. */
#include "mixers/performer.h"

#include <math.h>

enum {
    FULL_CHUNK = 2048,  /* keys a tile sums when there is no causal order */
    MOST_CHUNKS = 32,   /* of those, however long the sequence */
    FEATURE_FLOPS = 32, /* of a product, in the time that a feature itself takes */
    COMBINE_FLOPS = 64, /* of a product, in the time that a sum out of memory is added in */
};
/* What a tile computes at most, where ranges of ATTN_LANES features and the number of phases let
 * it: 5 to 10 ms. Smaller ranges would read keys and queries more often. */
#define TILE_FLOPS 0x1p29

static size_t pad(int64_t count)
{
    return ((size_t)count + ATTN_LANES - 1) / ATTN_LANES * ATTN_LANES;
}

size_t attn_performer_features(const attn_plan *plan)
{
    return pad(plan->params.features);
}

size_t attn_performer_columns(const attn_plan *plan)
{
    return pad(plan->shape.dv);
}

int64_t attn_performer_chunk_length(const attn_plan *plan)
{
    if (plan->params.mask.causal)
        return ATTN_PERFORMER_CAUSAL_CHUNK;
    int64_t length = (plan->shape.m + MOST_CHUNKS - 1) / MOST_CHUNKS;
    return length > FULL_CHUNK ? length : FULL_CHUNK;
}

int64_t attn_performer_chunk_count(const attn_plan *plan)
{
    int64_t length = attn_performer_chunk_length(plan);
    return (plan->shape.m + length - 1) / length;
}

int64_t attn_performer_slot_count(const attn_plan *plan)
{
    return attn_performer_chunk_count(plan) + 1;
}

static int most_rows(const attn_plan *plan)
{
    return plan->params.mask.causal ? ATTN_PERFORMER_CAUSAL_CHUNK : ATTN_PERFORMER_BLOCK;
}

int attn_performer_tile_rows(const attn_plan *plan)
{
    int most = most_rows(plan);
    return plan->shape.n < most ? (int)plan->shape.n : most;
}

/* Of a query and a feature. */
static double query_pairs(const attn_plan *plan)
{
    /* Keys taken in one by one are no matrix product. */
    return plan->params.mask.causal ? 4 : 1;
}

static double pair_flops(const attn_plan *plan)
{
    return 2 * (double)(plan->shape.d + plan->shape.dv) + FEATURE_FLOPS;
}

/* Of a feature of a head, to combine its slots. */
static double combine_pairs(const attn_plan *plan)
{
    return (double)attn_performer_slot_count(plan) * (double)attn_performer_columns(plan) *
           COMBINE_FLOPS / pair_flops(plan);
}

/* What a feature costs a whole tile of the phase. A call that is too short for one is cut like
 * others, so that padding it does not change the last bits of its answer. */
static double feature_pairs(const attn_plan *plan, attn_performer_cut cut)
{
    if (cut == ATTN_PERFORMER_KEYS)
        return (double)attn_performer_chunk_length(plan);
    if (cut == ATTN_PERFORMER_QUERIES)
        return most_rows(plan) * query_pairs(plan);
    return combine_pairs(plan);
}

/* Features of every range but the last. */
static int64_t range_width(const attn_plan *plan, attn_performer_cut cut)
{
    int64_t features = (int64_t)attn_performer_features(plan), groups = features / ATTN_LANES;
    double fit = floor(TILE_FLOPS / (feature_pairs(plan, cut) * pair_flops(plan)) / ATTN_LANES);
    int64_t most = fit < 1 ? 1 : fit < (double)groups ? (int64_t)fit : groups;
    int64_t ranges = (groups + most - 1) / most;
    if (cut == ATTN_PERFORMER_QUERIES && ranges > ATTN_PERFORMER_MOST_PASSES)
        ranges = ATTN_PERFORMER_MOST_PASSES;
    return (groups + ranges - 1) / ranges * ATTN_LANES;
}

int64_t attn_performer_range_count(const attn_plan *plan, attn_performer_cut cut)
{
    int64_t width = range_width(plan, cut);
    return ((int64_t)attn_performer_features(plan) + width - 1) / width;
}

attn_performer_range attn_performer_range_at(const attn_plan *plan, attn_performer_cut cut,
                                             int64_t index)
{
    int64_t width = range_width(plan, cut), first = index * width;
    int64_t left = (int64_t)attn_performer_features(plan) - first;
    return (attn_performer_range){.first = first, .count = left < width ? left : width};
}
