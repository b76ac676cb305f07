/* Linformer (Wang et al. 2020, equation 7): keys and values are shortened along the sequence before
 * attention, K' = E K and V' = F V with E, F of (k, length), so that cost is O(n k d).
 *
 * Each batch row works on its own valid length L, a prefix, so padding never changes an answer:
 *   mean      segment s averages positions [floor(s L / k), floor((s + 1) L / k)); L < k: k = L
 *   gaussian  entry (s, j) is drawn N(0, 1/k) from the seed, whatever L is; E = F
 *   given     L <= length: the first L columns; L > length: the columns stretched to L by linear
 *             interpolation (align_corners = false) times length / L, so that row mass is kept
 * Keys hidden by a key mask count as zero rows of K and V.
 *
 * There is no causal form: every row of K' mixes the whole sequence. Phases: draw (gaussian),
 * project, attend; the last is the fused tile on k keys. Where positions are many, each phase of
 * project has a range of them, as each of attend has of keys. */
#include "mixers/linformer.h"
#include "mixers/mixers.h"
#include "random.h"

#include <math.h>
#include <stdio.h>

enum {
    MOST_ROWS = 192, /* queries a tile */
    RANDOM_STREAM = 1,
    DRAW_COUNT = 16384, /* numbers a tile draws */
};

_Static_assert(1 + 2 * ATTN_FUSED_MOST_RANGES <= ATTN_MAX_PHASES, "a plan has room for all phases");

attn_linformer_layout attn_linformer_layout_of(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    size_t k = (size_t)plan->params.k, heads = (size_t)(s->batch * s->kv_heads);
    attn_linformer_layout at = {0};
    at.keys = plan->params.projection == ATTN_GAUSSIAN ? k * (size_t)s->m : 0;
    at.values = at.keys + heads * k * (size_t)s->d;
    at.total = at.values + heads * k * (size_t)s->dv;
    return at;
}

static bool sees_any_key(const attn_plan *plan, int64_t b)
{
    const uint8_t *mask = plan->params.mask.key_mask;
    int64_t length = attn_valid_keys(plan, b), j = 0;
    while (mask && j < length && !mask[b * plan->shape.m + j])
        j++;
    return j < length;
}

int64_t attn_linformer_keys(const attn_plan *plan, int64_t b)
{
    int64_t length = attn_valid_keys(plan, b), k = plan->params.k;
    if (!sees_any_key(plan, b))
        return 0;
    return plan->params.projection == ATTN_MEAN && length < k ? length : k;
}

static attn_status check(const attn_mix_params *p, const attn_shape *s, attn_error *error)
{
    const double most_floats = 0x1p60 / sizeof(float);
    double rows = (double)s->batch * (double)s->kv_heads * (double)(s->d + s->dv) + (double)s->m;
    if (p->k < 1 || p->k > INT32_MAX)
        return attn_error_set(error, ATTN_INVALID, "params.k",
                              "params.k is %lld, expected at least 1", (long long)p->k);
    if (s->d + s->dv > INT32_MAX)
        return attn_error_set(error, ATTN_INVALID, "q", "q and v have too many columns together");
    if (rows * (double)p->k > most_floats)
        return attn_error_set(error, ATTN_INVALID, "params.k",
                              "params.k is %lld: the projected keys cannot be counted",
                              (long long)p->k);
    if (p->projection == ATTN_GIVEN && p->projection_length > INT32_MAX)
        return attn_error_set(error, ATTN_INVALID, "e", "e covers %lld positions, expected to %d",
                              (long long)p->projection_length, INT32_MAX);
    if (p->projection == ATTN_GIVEN && p->projection_heads != 1 &&
        p->projection_heads != s->kv_heads)
        return attn_error_set(error, ATTN_INVALID, "e",
                              "e has %lld heads, expected 1 or the %lld of k",
                              (long long)p->projection_heads, (long long)s->kv_heads);
    return ATTN_OK;
}

int64_t attn_linformer_longest_row(const attn_plan *plan)
{
    int64_t longest = plan->params.mask.lengths ? 0 : plan->shape.m;
    for (int64_t b = 0; plan->params.mask.lengths && b < plan->shape.batch; b++)
        if (attn_valid_keys(plan, b) > longest)
            longest = attn_valid_keys(plan, b);
    return longest;
}

static void warn_if_stretched(attn_plan *plan)
{
    int64_t longest = attn_linformer_longest_row(plan), length = plan->params.projection_length;
    if (plan->params.projection == ATTN_GIVEN && longest > length)
        snprintf(plan->warning, sizeof plan->warning,
                 "linformer: the projection covers %lld positions and was interpolated to %lld",
                 (long long)length, (long long)longest);
}

static int64_t draw_parts(const attn_plan *plan)
{
    return (plan->shape.m + DRAW_COUNT - 1) / DRAW_COUNT;
}

static attn_status add_draw_phase(attn_plan *plan, const attn_rates *rates, attn_error *error)
{
    int64_t parts = draw_parts(plan);
    const attn_phase draw = {.name = "draw",
                             .tiles = plan->params.k * parts,
                             .tile_ns = (double)plan->shape.m / (double)parts * rates->draw_ns};
    return attn_plan_append(plan, draw, error);
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    attn_status status = check(params, shape, error);
    if (status == ATTN_OK)
        status = attn_fused_open(&attn_mixer_linformer, machine, params, shape, plan, error);
    if (status != ATTN_OK)
        return status;
    if (plan->params.projection == ATTN_MEAN && plan->params.k > shape->m)
        plan->params.k = shape->m;
    double k = (double)plan->params.k;
    plan->shared_bytes = attn_linformer_layout_of(plan).total * sizeof(float);
    warn_if_stretched(plan);
    if (params->projection == ATTN_GAUSSIAN)
        status = add_draw_phase(plan, &machine->rates, error);
    if (status == ATTN_OK)
        status = attn_linformer_add_project(plan, machine, error);
    if (status == ATTN_OK)
        status = attn_fused_row_phases(
            plan, machine, "attend", plan->params.k, ATTN_NO_EDGE, MOST_ROWS,
            (double)shape->batch * (double)shape->heads * (double)shape->n * k, 0.5, error);
    /* The projected keys have no mask, so the tile gathers nothing. */
    size_t attend =
        plan->kernels->attend_bytes(plan->tile_rows, (int)shape->d, (int)shape->dv, false);
    size_t project = attn_linformer_project_bytes(plan);
    plan->scratch_bytes = attend > project ? attend : project;
    return status;
}

static void run_draw(const attn_plan *plan, float *drawn, int64_t tile)
{
    int64_t m = plan->shape.m, row = tile / draw_parts(plan);
    int64_t from = tile % draw_parts(plan) * DRAW_COUNT;
    int64_t end = from + DRAW_COUNT < m ? from + DRAW_COUNT : m;
    double deviation = 1 / sqrt((double)plan->params.k);
    for (int64_t j = from; j < end; j++) {
        /* By (row, position) and not by their place in this call's array: the same whatever m is.
         */
        uint64_t index = (uint64_t)row << 32 | (uint64_t)j;
        drawn[row * m + j] =
            (float)(deviation * attn_random_normal(plan->params.seed, RANDOM_STREAM, index));
    }
}

static attn_status run_attend(const attn_plan *plan, const attn_mix_io *io, int range, int64_t tile,
                              attn_arena *scratch)
{
    const attn_shape *s = &plan->shape;
    attn_linformer_layout at = attn_linformer_layout_of(plan);
    attn_run place = attn_fused_place(plan, tile);
    float *shared = io->shared;
    const attn_view k = attn_view_dense(shared + at.keys, s->kv_heads, plan->params.k, s->d);
    const attn_view v = attn_view_dense(shared + at.values, s->kv_heads, plan->params.k, s->dv);
    const attn_span span = {.step = 1,
                            .count = attn_linformer_keys(plan, place.b),
                            .first = -ATTN_NO_EDGE,
                            .last = ATTN_NO_EDGE};
    const attn_fused_job job = {
        .run = place, .k = &k, .v = &v, .scores = io->scores ? &io->scores[tile] : NULL};
    return attn_fused_run_range(plan, io, &job, span, range, scratch);
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    int drawing = plan->params.projection == ATTN_GAUSSIAN ? 1 : 0;
    int ranges = attn_linformer_project_ranges(plan).count;
    if (phase < drawing) {
        run_draw(plan, io->shared, tile);
        return ATTN_OK;
    }
    phase -= drawing;
    return phase < ranges ? attn_linformer_run_project(plan, io, phase, tile, scratch)
                          : run_attend(plan, io, phase - ranges, tile, scratch);
}

const attn_mixer attn_mixer_linformer = {
    .name = "linformer",
    .summary = "keys and values shortened to params.k rows: by e and f, by means, or at random",
    .traits = 0,
    .plan = plan,
    .run = run,
};
