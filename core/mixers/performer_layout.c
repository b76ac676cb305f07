/* Where Performer's numbers lie. Shared: directions, if they are drawn; where rows stand, if there
 * are several passes; and the sums, or what drawing needs before there are any. */
#include "mixers/directions.h"
#include "mixers/performer.h"

#include <string.h>

static size_t omega_bytes(const attn_plan *plan)
{
    size_t count = (size_t)(plan->params.features * plan->shape.d);
    return attn_performer_draws(plan) ? attn_arena_round(count * sizeof(float)) : 0;
}

static size_t states_bytes(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    if (attn_performer_range_count(plan, ATTN_PERFORMER_QUERIES) == 1)
        return 0;
    return attn_arena_round((size_t)(s->batch * s->heads * s->n) * sizeof(attn_row_state));
}

static size_t sums_floats(const attn_plan *plan, size_t features)
{
    return features * (attn_performer_columns(plan) + 2);
}

static size_t slots_bytes(const attn_plan *plan)
{
    int64_t heads = plan->shape.batch * plan->shape.kv_heads;
    return (size_t)(heads * attn_performer_slot_count(plan)) *
           sums_floats(plan, attn_performer_features(plan)) * sizeof(float);
}

bool attn_performer_draws(const attn_plan *plan)
{
    return plan->params.omega == NULL;
}

size_t attn_performer_shared_bytes(const attn_plan *plan)
{
    size_t slots = slots_bytes(plan), drawing = 0;
    if (attn_performer_draws(plan))
        drawing = attn_directions_bytes(&plan->params, plan->shape.d);
    return omega_bytes(plan) + states_bytes(plan) + (drawing > slots ? drawing : slots);
}

float *attn_performer_drawn(const attn_mix_io *io)
{
    return io->shared;
}

const float *attn_performer_omega(const attn_plan *plan, const attn_mix_io *io)
{
    return attn_performer_draws(plan) ? attn_performer_drawn(io) : plan->params.omega;
}

attn_row_state *attn_performer_state(const attn_plan *plan, const attn_mix_io *io,
                                     const attn_run *run)
{
    const attn_shape *s = &plan->shape;
    unsigned char *states = (unsigned char *)io->shared + omega_bytes(plan);
    if (states_bytes(plan) == 0)
        return NULL;
    return (attn_row_state *)(void *)states + (run->b * s->heads + run->h) * s->n + run->first;
}

void *attn_performer_drawing(const attn_plan *plan, const attn_mix_io *io)
{
    return (unsigned char *)io->shared + omega_bytes(plan) + states_bytes(plan);
}

static attn_feature_sums sums_in(const attn_plan *plan, float *memory, size_t features,
                                 attn_performer_range range)
{
    size_t columns = attn_performer_columns(plan), first = (size_t)range.first;
    return (attn_feature_sums){.features = range.count,
                               .columns = (ptrdiff_t)columns,
                               .maximum = memory + first,
                               .mass = memory + features + first,
                               .values = memory + 2 * features + first * columns};
}

attn_feature_sums attn_performer_slot(const attn_plan *plan, const attn_mix_io *io, int64_t head,
                                      int64_t index, attn_performer_range range)
{
    size_t features = attn_performer_features(plan);
    size_t at = (size_t)(head * attn_performer_slot_count(plan) + index);
    float *slots = attn_performer_drawing(plan, io);
    return sums_in(plan, slots + at * sums_floats(plan, features), features, range);
}

/* Features of the widest range, and so the first, that a tile works on. */
static size_t widest(const attn_plan *plan)
{
    int64_t keys = attn_performer_range_at(plan, ATTN_PERFORMER_KEYS, 0).count;
    int64_t queries = attn_performer_range_at(plan, ATTN_PERFORMER_QUERIES, 0).count;
    return (size_t)(keys > queries ? keys : queries);
}

/* Only causal tiles have sums of their own. */
static size_t own_sums_bytes(const attn_plan *plan, size_t features)
{
    return plan->params.mask.causal ? sums_floats(plan, features) * sizeof(float) : 0;
}

size_t attn_performer_workspace_bytes(const attn_plan *plan)
{
    size_t features = widest(plan), rows = ATTN_PERFORMER_BLOCK;
    return attn_arena_round(own_sums_bytes(plan, features)) +
           2 * attn_arena_round(rows * features * sizeof(float)) +
           attn_arena_round(features * sizeof(float)) +
           attn_arena_round(attn_performer_columns(plan) * sizeof(float)) +
           attn_arena_round(rows * sizeof(float)) + attn_arena_round(rows * sizeof(attn_row_state));
}

bool attn_performer_workspace_open(const attn_plan *plan, attn_arena *scratch,
                                   attn_performer_workspace *w)
{
    size_t features = widest(plan), rows = ATTN_PERFORMER_BLOCK;
    size_t columns = attn_performer_columns(plan);
    w->own = attn_arena_take(scratch, own_sums_bytes(plan, features));
    w->keys = attn_arena_take(scratch, rows * features * sizeof(float));
    w->queries = attn_arena_take(scratch, rows * features * sizeof(float));
    w->keep = attn_arena_take(scratch, features * sizeof(float));
    w->row = attn_arena_take(scratch, columns * sizeof(float));
    w->shift = attn_arena_take(scratch, rows * sizeof(float));
    w->state = attn_arena_take(scratch, rows * sizeof(attn_row_state));
    if (!w->own || !w->keys || !w->queries || !w->keep || !w->row || !w->shift || !w->state)
        return false;
    memset(w->row, 0, columns * sizeof(float));
    return true;
}

attn_feature_sums attn_performer_own_sums(const attn_plan *plan, const attn_performer_workspace *w,
                                          attn_performer_range range)
{
    range.first = 0;
    return sums_in(plan, w->own, (size_t)range.count, range);
}
