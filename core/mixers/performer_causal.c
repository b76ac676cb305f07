/* Performer's answers under a causal mask. A tile continues from the sums before its rows' chunk
 * and takes in the chunk's own keys one by one, so that nothing of the future, not even a maximum,
 * touches a row. */
#include "mixers/performer.h"

#include <math.h>
#include <string.h>

/* What the steps of a tile share. */
typedef struct causal_tile {
    const attn_plan *plan;
    const attn_mix_io *io;
    attn_performer_workspace *w;
    attn_performer_range range;
    attn_feature_sums sums; /* of the keys taken in so far */
    attn_run at;            /* rows that are being answered */
    attn_row_state *states; /* where they stand between passes; NULL when there is only one */
    int64_t kv_head;        /* of the batch row */
    bool first, last;       /* range */
} causal_tile;

static void copy(attn_feature_sums *to, const attn_feature_sums *from)
{
    size_t features = (size_t)to->features, bytes = features * sizeof(float);
    memcpy(to->maximum, from->maximum, bytes);
    memcpy(to->mass, from->mass, bytes);
    memcpy(to->values, from->values, bytes * (size_t)to->columns);
}

/* Take in one key, number r of those prepared, unless it is hidden. */
static void take_key(causal_tile *t, int64_t key, int64_t r)
{
    attn_performer_workspace *w = t->w;
    const attn_feature_kernels *kernels = t->plan->kernels->features;
    float *phi = w->keys + r * t->range.count;
    if (w->shift[r] == INFINITY)
        return;
    kernels->absorb(&t->sums, phi, &w->shift[r], 1, w->keep);
    memcpy(w->row, attn_view_row(t->io->v, t->at.b, t->kv_head, key),
           (size_t)t->plan->shape.dv * sizeof(float));
    kernels->add_key(&t->sums, w->keep, phi, w->row);
}

/* Features of keys [from, end), at most a block of them. */
static void prepare_keys(causal_tile *t, int64_t from, int64_t end)
{
    if (end > from)
        attn_performer_project_keys(t->plan, t->io, t->at.b, t->kv_head, from, (int)(end - from),
                                    t->range, t->w);
}

/* Take in keys [from, end), in order. */
static void take_keys(causal_tile *t, int64_t from, int64_t end)
{
    for (; from < end; from += ATTN_PERFORMER_BLOCK) {
        int64_t stop = end - from < ATTN_PERFORMER_BLOCK ? end : from + ATTN_PERFORMER_BLOCK;
        prepare_keys(t, from, stop);
        for (int64_t key = from; key < stop; key++)
            take_key(t, key, key - from);
    }
}

/* Answer row r of the run from the sums as they stand. */
static void answer_row(causal_tile *t, int r)
{
    const attn_feature_kernels *kernels = t->plan->kernels->features;
    int64_t columns = t->plan->shape.dv;
    float *weights = t->w->queries + r * t->range.count, *row = t->w->row;
    float *out = attn_view_row(t->io->out, t->at.b, t->at.h, t->at.first + r);
    attn_row_state part, *state = t->states ? &t->states[r] : &part;
    kernels->weigh(&t->sums, weights, 1, &part);
    if (t->first)
        *state = part;
    else
        attn_performer_row_resume(state, part, out, columns, weights, t->range.count);
    /* The row buffer's padding columns come back as the 0 they hold in the sums. */
    kernels->read(&t->sums, weights, row);
    for (int64_t c = 0; c < columns; c++)
        out[c] = t->first ? row[c] : out[c] + row[c];
    if (t->last)
        attn_performer_row_finish(state->sum, columns, out);
}

/* Answer a block of rows, each after its own last key; all keys before the first row's own have
 * been taken in. */
static void answer_in_order(causal_tile *t)
{
    const attn_shape *s = &t->plan->shape;
    int64_t valid = attn_valid_keys(t->plan, t->at.b), p = t->at.first + s->m - s->n;
    int64_t from = p > 0 ? p : 0, end = p + t->at.rows < valid ? p + t->at.rows : valid;
    t->states = attn_performer_state(t->plan, t->io, &t->at);
    prepare_keys(t, from, end);
    attn_performer_project_queries(t->plan, t->io, &t->at, t->range, t->w);
    for (int r = 0; r < t->at.rows; r++) {
        if (p + r >= from && p + r < end)
            take_key(t, p + r, p + r - from);
        answer_row(t, r);
    }
}

/* The rows whose positions lie in a chunk of keys; false when there are none. Those before the
 * first key, of which there may be many, see nothing and are answered here. */
static bool place(const attn_plan *plan, const attn_mix_io *io, int64_t tile, attn_run *at)
{
    const attn_shape *s = &plan->shape;
    int64_t chunks = attn_performer_chunk_count(plan), head = tile / chunks, chunk = tile % chunks;
    int64_t from = chunk * ATTN_PERFORMER_CAUSAL_CHUNK - (s->m - s->n);
    int64_t end = from + ATTN_PERFORMER_CAUSAL_CHUNK;
    *at = (attn_run){.b = head / s->heads, .h = head % s->heads, .step = 1};
    if (chunk == 0 && from > 0) {
        at->rows = (int)from;
        attn_fused_clear(plan, io, at, 0);
    }
    at->first = from > 0 ? from : 0;
    end = end < s->n ? end : s->n;
    at->rows = (int)(end - at->first);
    return end > at->first;
}

void attn_performer_run_causal(const attn_plan *plan, const attn_mix_io *io, int64_t pass,
                               int64_t tile, attn_performer_workspace *w)
{
    const attn_shape *s = &plan->shape;
    int64_t passes = attn_performer_range_count(plan, ATTN_PERFORMER_QUERIES);
    int64_t chunk = tile % attn_performer_chunk_count(plan);
    attn_performer_range range = attn_performer_range_at(plan, ATTN_PERFORMER_QUERIES, pass);
    causal_tile t = {.plan = plan,
                     .io = io,
                     .w = w,
                     .range = range,
                     .sums = attn_performer_own_sums(plan, w, range),
                     .first = pass == 0,
                     .last = pass == passes - 1};
    if (!place(plan, io, tile, &t.at))
        return;
    t.kv_head = t.at.h / (s->heads / s->kv_heads);
    int64_t last = t.at.first + attn_fused_clear_padding(plan, io, &t.at);
    const attn_feature_sums before =
        attn_performer_slot(plan, io, t.at.b * s->kv_heads + t.kv_head, chunk, range);
    copy(&t.sums, &before);
    int64_t valid = attn_valid_keys(plan, t.at.b), p = t.at.first + s->m - s->n;
    take_keys(&t, chunk * ATTN_PERFORMER_CAUSAL_CHUNK, p < valid ? p : valid);
    for (; t.at.first < last; t.at.first += ATTN_PERFORMER_BLOCK) {
        int64_t left = last - t.at.first;
        t.at.rows = (int)(left < ATTN_PERFORMER_BLOCK ? left : ATTN_PERFORMER_BLOCK);
        answer_in_order(&t);
    }
}
