/* What Performer's phases take: products with the directions and with values or sums, a few
 * operations a feature, and under a causal mask every key and query one by one. */
#include "mixers/performer.h"

enum {
    COMBINE_COLUMNS = 64, /* that a feature's two exponentials take as long as */
};

/* Rows of all batch rows that are not padding. Without lengths those are alike, and there may be
 * more than anybody could count. */
static double valid_rows(const attn_plan *plan, int64_t (*valid)(const attn_plan *, int64_t))
{
    double rows = 0;
    for (int64_t b = 0; plan->params.mask.lengths && b < plan->shape.batch; b++)
        rows += (double)valid(plan, b);
    return plan->params.mask.lengths ? rows : (double)plan->shape.batch * (double)valid(plan, 0);
}

/* Products of `rows` rows, which come in blocks, with a matrix of `features` by `columns`. */
static double products_ns(const attn_plan *plan, const attn_rates *rates, double rows,
                          double features, double columns)
{
    int64_t length = plan->shape.n > plan->shape.m ? plan->shape.n : plan->shape.m;
    double block = (double)(length < ATTN_PERFORMER_BLOCK ? length : ATTN_PERFORMER_BLOCK);
    return rows / block * attn_product_ns(rates, block, features, columns);
}

double attn_performer_keys_ns(const attn_plan *plan, const attn_rates *rates)
{
    const attn_shape *s = &plan->shape;
    double rows = valid_rows(plan, attn_valid_keys) * (double)s->kv_heads;
    double features = (double)attn_performer_features(plan);
    return products_ns(plan, rates, rows, features, (double)(s->d + s->dv)) +
           rows * features * rates->feature_ns;
}

double attn_performer_combine_ns(const attn_plan *plan, const attn_rates *rates)
{
    const attn_shape *s = &plan->shape;
    return (double)s->batch * (double)s->kv_heads * (double)attn_performer_slot_count(plan) *
           (double)attn_performer_features(plan) *
           (double)(attn_performer_columns(plan) + COMBINE_COLUMNS) * rates->combine_float_ns;
}

/* Keys that the tiles of a head take in before their first row: when there are more keys than
 * queries, those of the first chunk that lie before the first query. */
static double keys_before(const attn_plan *plan)
{
    int64_t offset = plan->shape.m - plan->shape.n;
    return offset > 0 ? (double)(offset % ATTN_PERFORMER_CAUSAL_CHUNK) : 0;
}

double attn_performer_queries_ns(const attn_plan *plan, const attn_rates *rates, int64_t features)
{
    const attn_shape *s = &plan->shape;
    double rows = valid_rows(plan, attn_valid_rows) * (double)s->heads, each = (double)features;
    double columns = (double)attn_performer_columns(plan);
    if (!plan->params.mask.causal)
        return products_ns(plan, rates, rows, each, (double)(s->d + s->dv)) +
               rows * each * rates->feature_ns;
    /* A key or a query is half a pair of both. */
    double pairs = rows + (double)s->batch * (double)s->heads * keys_before(plan) / 2;
    return products_ns(plan, rates, 2 * pairs, each, (double)s->d) +
           pairs * each * (rates->causal_feature_ns + columns * rates->causal_float_ns);
}
