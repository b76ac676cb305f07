/* Sparse Transformer attention (Child et al. 2019, section 4). With p = i + m - n the position of a
 * query, l the stride and c the summary, key j is visible when
 *
 *   local    0 <= p - j < l
 *   strided  local, or (p - j) mod l = 0
 *   fixed    floor(p / l) = floor(j / l), or j mod l >= l - c
 *
 * and, as in the paper, j <= p. Without a causal mask we extend them symmetrically: local is
 * |p - j| < l, and the rest loses the cut. mod and floor are the mathematical ones: p may be
 * negative. With l near sqrt(m) each query sees O(sqrt(m)) keys.
 *
 * Strided: queries of one residue class p mod l share their far keys, which are every l-th, so a
 * class is ordinary attention on strided rows. It takes "local" phases, as a window does, and a
 * "strided" one that goes on from the softmax state they left. Fixed: queries of one block share
 * all their keys, so a tile stays inside a block. */
#include "mixers/fused.h"
#include "mixers/mixers.h"

#include <math.h>

enum {
    MOST_ROWS = 192,
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t offset_of(const attn_plan *plan)
{
    return plan->shape.m - plan->shape.n;
}

static int64_t right_of(const attn_plan *plan)
{
    return plan->params.mask.causal ? 0 : plan->params.stride - 1;
}

/* How many blocks of l positions the queries lie in, and the first of them. */
static int64_t first_block(const attn_plan *plan)
{
    return floor_div(offset_of(plan), plan->params.stride);
}

static int64_t block_count(const attn_plan *plan)
{
    return floor_div(plan->shape.n - 1 + offset_of(plan), plan->params.stride) - first_block(plan) +
           1;
}

/* Tiles that a block's rows, or a residue class's, are cut into. */
static int64_t tiles_of(int64_t rows, int tile_rows)
{
    return (rows + tile_rows - 1) / tile_rows;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tiles of a block of l positions: it holds no more rows than there are, however long it is. */
static int64_t tiles_a_block(const attn_plan *plan)
{
    return tiles_of(smaller(plan->params.stride, plan->shape.n), plan->tile_rows);
}

static int64_t classes_of(const attn_plan *plan)
{
    return smaller(plan->params.stride, plan->shape.n);
}

static int64_t class_rows(const attn_plan *plan)
{
    return (plan->shape.n + plan->params.stride - 1) / plan->params.stride;
}

/* Keys a query sees near itself, and far away; upper bounds for predicting. */
static double near_keys(const attn_plan *plan)
{
    double l = (double)plan->params.stride, m = (double)plan->shape.m;
    double width = plan->params.mask.causal || plan->params.pattern == ATTN_FIXED ? l : 2 * l - 1;
    return width < m ? width : m;
}

static double far_keys(const attn_plan *plan)
{
    double blocks = (double)plan->shape.m / (double)plan->params.stride;
    double half = plan->params.mask.causal ? 0.5 : 1;
    return plan->params.pattern == ATTN_FIXED ? half * blocks * (double)plan->params.summary
                                              : half * blocks;
}

/* Query rows of all batch rows and heads, padding left out, as if each saw all keys of its own. */
static double all_rows(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    double rows = (double)s->n * (double)s->batch;
    if (plan->params.mask.lengths) {
        rows = 0;
        for (int64_t b = 0; b < s->batch; b++)
            rows += (double)attn_valid_rows(plan, b);
    }
    return rows * (double)s->heads * attn_visible_share(plan);
}

static attn_status plan_fixed(attn_plan *plan, const attn_machine *machine, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    int64_t keys = (int64_t)(near_keys(plan) + far_keys(plan)) + 1;
    plan->tile_rows = attn_fused_rows(plan, keys, smaller(MOST_ROWS, plan->params.stride));
    plan->tile_rows = (int)smaller(plan->tile_rows, plan->params.stride);
    size_t spans = (size_t)(1 + 2 * plan->params.summary) * sizeof(attn_span);
    plan->scratch_bytes = attn_fused_bytes(plan, plan->tile_rows) + attn_arena_round(spans);
    int64_t heads = s->batch * s->heads, tiles = block_count(plan) * tiles_a_block(plan);
    double sides = plan->params.mask.causal ? 1 : 2;
    const attn_fused_work work = {.rows = plan->tile_rows,
                                  .keys = (double)s->m,
                                  .pairs = all_rows(plan) * (near_keys(plan) + far_keys(plan)),
                                  .cuts = 1 + sides * (double)plan->params.summary / 2};
    double ns = attn_fused_ns(plan, &machine->rates, (double)heads * (double)tiles, &work);
    return attn_run_phase(plan, "attend", heads, tiles, ns, error);
}

static attn_status plan_band(attn_plan *plan, const attn_machine *machine, attn_error *error)
{
    int64_t l = plan->params.stride;
    return attn_fused_row_phases(plan, machine, "local", (int64_t)near_keys(plan), right_of(plan),
                                 MOST_ROWS, attn_band_pairs(plan, l - 1, right_of(plan)), 2, error);
}

static attn_status plan_strided(attn_plan *plan, const attn_machine *machine, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    int64_t heads = s->batch * s->heads;
    int64_t tiles = classes_of(plan) * tiles_of(class_rows(plan), plan->tile_rows);
    double spans = plan->params.mask.causal ? 1 : 2;
    const attn_fused_work work = {.rows = smaller(class_rows(plan), plan->tile_rows),
                                  .keys = (double)s->m,
                                  .pairs = all_rows(plan) * far_keys(plan),
                                  .cuts = 1.5 * spans,
                                  .resumes = true};
    double ns = attn_fused_ns(plan, &machine->rates, (double)heads * (double)tiles, &work);
    return attn_run_phase(plan, "strided", heads, tiles, ns, error);
}

static attn_status check(const attn_mix_params *params, attn_error *error)
{
    if (params->stride < 0 || params->summary < 1)
        return attn_error_set(error, ATTN_INVALID,
                              params->stride < 0 ? "params.stride" : "params.summary",
                              "params.stride is %lld and params.summary %lld, expected at least 1",
                              (long long)params->stride, (long long)params->summary);
    return ATTN_OK;
}

/* A stride beyond all distances means what one that just covers them means, and costs less; of the
 * summary, the last columns of a block, the part that lies beyond falls away. */
static void clamp_stride(attn_plan *plan)
{
    attn_mix_params *p = &plan->params;
    int64_t widest = plan->shape.m > plan->shape.n ? plan->shape.m : plan->shape.n;
    p->summary = smaller(p->summary, p->stride);
    if (p->stride <= widest)
        return;
    int64_t beyond = p->stride - widest;
    p->stride = widest;
    p->summary = p->summary > beyond ? p->summary - beyond : 0;
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    attn_status status = check(params, error);
    if (status == ATTN_OK)
        status = attn_fused_open(&attn_mixer_sparse, machine, params, shape, plan, error);
    if (status != ATTN_OK)
        return status;
    if (plan->params.stride == 0)
        plan->params.stride = (int64_t)ceil(sqrt((double)shape->m));
    clamp_stride(plan);
    if (params->pattern == ATTN_FIXED)
        return plan_fixed(plan, machine, error);
    if (params->pattern == ATTN_STRIDED)
        status = attn_fused_keep_states(plan, error);
    if (status == ATTN_OK)
        status = plan_band(plan, machine, error);
    if (status == ATTN_OK && params->pattern == ATTN_STRIDED)
        status = plan_strided(plan, machine, error);
    return status;
}

/* Every l-th key from `begin` on, those before `end`. */
static attn_span every_lth(const attn_plan *plan, int64_t begin, int64_t end)
{
    int64_t l = plan->params.stride;
    return (attn_span){.begin = begin,
                       .step = l,
                       .count = end > begin ? (end - begin + l - 1) / l : 0,
                       .first = -ATTN_NO_EDGE,
                       .last = ATTN_NO_EDGE};
}

static attn_run class_place(const attn_plan *plan, int64_t tile)
{
    const attn_shape *s = &plan->shape;
    int64_t l = plan->params.stride, tiles = tiles_of(class_rows(plan), plan->tile_rows);
    int64_t head = tile / (classes_of(plan) * tiles), rest = tile % (classes_of(plan) * tiles);
    int64_t first = rest / tiles + (tiles - 1 - rest % tiles) * plan->tile_rows * l;
    int64_t left = first < s->n ? (s->n - first + l - 1) / l : 0;
    return (attn_run){.b = head / s->heads,
                      .h = head % s->heads,
                      .first = first,
                      .step = l,
                      .rows = (int)smaller(left, plan->tile_rows)};
}

/* Far keys of one residue class: ordinal u of the class's keys, counted in strides, is visible to a
 * query whose own ordinal is larger, or without a causal mask different. */
static attn_status run_strided(const attn_plan *plan, const attn_mix_io *io, int64_t tile,
                               uint64_t *scores, attn_arena *scratch)
{
    attn_run at = class_place(plan, tile);
    if (at.rows == 0)
        return ATTN_OK;
    int64_t l = plan->params.stride, p = at.first + offset_of(plan), u = floor_div(p, l);
    attn_span before = every_lth(plan, p - u * l, attn_valid_keys(plan, at.b)), after = before;
    before.last = u - 1;
    if (before.count > u + at.rows - 1)
        before.count = u + at.rows - 1 > 0 ? u + at.rows - 1 : 0;
    int64_t skipped = u + 1 > 0 ? smaller(u + 1, after.count) : 0;
    after.begin += skipped * l;
    after.count -= skipped;
    after.first = u + 1 - skipped;
    const attn_fused_job job = {.run = at,
                                .spans = (const attn_span[]){before, after},
                                .span_count = plan->params.mask.causal ? 1 : 2,
                                .state = attn_fused_state(plan, io, &at),
                                .resume = true,
                                .scores = scores};
    return attn_fused_run(plan, io, &job, scratch);
}

/* Rows of block `block` of positions; `part` counts its tiles. */
static attn_run block_place(const attn_plan *plan, int64_t head, int64_t block, int64_t part)
{
    const attn_shape *s = &plan->shape;
    int64_t l = plan->params.stride, from = block * l - offset_of(plan);
    int64_t first = (from > 0 ? from : 0) + part * plan->tile_rows;
    int64_t left = smaller(from + l, s->n) - first;
    return (attn_run){.b = head / s->heads,
                      .h = head % s->heads,
                      .first = first,
                      .step = 1,
                      .rows = (int)(left < 0 ? 0 : smaller(left, plan->tile_rows))};
}

/* The block's own keys, then the summary columns of the blocks before and, without a causal mask,
 * after it. Returns the number of spans. */
static int fixed_spans(const attn_plan *plan, const attn_run *at, int64_t block, attn_span *spans)
{
    int64_t l = plan->params.stride, keys = attn_valid_keys(plan, at->b);
    bool causal = plan->params.mask.causal;
    int64_t own_begin = smaller(block > 0 ? block * l : 0, keys);
    int64_t own_end = smaller(block >= 0 ? (block + 1) * l : 0, keys);
    int count = 0;
    spans[count++] = (attn_span){
        .begin = own_begin,
        .step = 1,
        .count = own_end > own_begin ? own_end - own_begin : 0,
        .first = -ATTN_NO_EDGE,
        .last = causal ? at->first + offset_of(plan) - own_begin : ATTN_NO_EDGE,
    };
    for (int64_t column = l - plan->params.summary; column < l; column++) {
        spans[count++] = every_lth(plan, column, smaller(own_begin, keys));
        if (!causal)
            spans[count++] = every_lth(plan, own_end + column, keys);
    }
    return count;
}

static attn_status run_fixed(const attn_plan *plan, const attn_mix_io *io, int64_t tile,
                             uint64_t *scores, attn_arena *scratch)
{
    int64_t parts = tiles_a_block(plan), blocks = block_count(plan);
    int64_t block = first_block(plan) + blocks - 1 - tile / parts % blocks;
    attn_run at = block_place(plan, tile / (blocks * parts), block, tile % parts);
    if (at.rows == 0)
        return ATTN_OK;
    size_t bytes = (size_t)(1 + 2 * plan->params.summary) * sizeof(attn_span);
    attn_span *spans = attn_arena_take(scratch, bytes);
    if (!spans)
        return ATTN_NO_MEMORY;
    int count = fixed_spans(plan, &at, block, spans);
    const attn_fused_job job = {.run = at, .spans = spans, .span_count = count, .scores = scores};
    return attn_fused_run(plan, io, &job, scratch);
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    uint64_t *scores = io->scores ? &io->scores[tile] : NULL;
    if (plan->params.pattern == ATTN_FIXED)
        return run_fixed(plan, io, tile, scores, scratch);
    if (phase < plan->ranges.count)
        return attn_fused_run_band(plan, io, phase, tile, plan->params.stride - 1, right_of(plan),
                                   scratch);
    return run_strided(plan, io, tile, scores, scratch);
}

const attn_mixer attn_mixer_sparse = {
    .name = "sparse",
    .summary = "Sparse Transformer: near keys and every params.stride-th, or block summaries",
    .traits = ATTN_CAUSAL,
    .plan = plan,
    .run = run,
};
