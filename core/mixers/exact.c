/* Exact softmax attention (Vaswani et al. 2017, section 3.2), one phase: a tile is a run of queries
 * of one head against all the keys they may see. Workspace is a worker's few panels whatever the
 * length; the n x m matrix never exists. */
#include "kernels/kernels.h"
#include "mixers/mixers.h"

enum {
    TILE_OPEN_NS = 4000, /* about what a tile costs before its first key */
    MOST_ROWS = 96,      /* queries a tile shares each block of keys among, while that is in L2 */
    TILE_NS =
        1500 * 1000, /* a tile should end about this soon: other jobs and cancels wait for it */
};

/* Where a tile lies: rows [first, first + rows) of head h of batch row b. */
typedef struct place {
    int64_t b, h, first;
    int rows;
} place;

static int64_t blocks_of(const attn_plan *plan)
{
    return (plan->shape.n + plan->tile_rows - 1) / plan->tile_rows;
}

static int64_t valid_keys(const attn_plan *plan, int64_t b)
{
    return plan->params.mask.lengths ? plan->params.mask.lengths[b] : plan->shape.m;
}

static place place_of(const attn_plan *plan, int64_t tile)
{
    const attn_shape *s = &plan->shape;
    int64_t blocks = blocks_of(plan), row = tile / blocks;
    /* Last rows first: under a causal mask they are the longest, and none should be left for last.
     */
    int64_t first = (blocks - 1 - tile % blocks) * plan->tile_rows;
    int64_t left = s->n - first;
    return (place){.b = row / s->heads,
                   .h = row % s->heads,
                   .first = first,
                   .rows = (int)(left < plan->tile_rows ? left : plan->tile_rows)};
}

/* Query-key pairs of one head that lengths and causality leave: what its tiles will cost. */
static double pairs_in_row(const attn_plan *plan, int64_t b)
{
    const attn_shape *s = &plan->shape;
    double keys = (double)valid_keys(plan, b), n = (double)s->n, m = (double)s->m;
    double rows = plan->params.mask.lengths && s->n == s->m ? keys : n;
    if (!plan->params.mask.causal)
        return rows * keys;
    /* Row i sees min(keys, i + 1 + m - n) keys: a ramp cut off at 0 and at `keys`. */
    double pairs = 0, first = 1 + m - n, last = rows + m - n;
    double ramp_from = first > 1 ? first : 1, ramp_to = last < keys ? last : keys;
    if (ramp_to >= ramp_from)
        pairs += (ramp_from + ramp_to) / 2 * (ramp_to - ramp_from + 1);
    double flat_from = ramp_to + 1 > first ? ramp_to + 1 : first;
    if (last >= flat_from && keys > 0)
        pairs += keys * (last - flat_from + 1);
    return pairs;
}

static double visible_pairs(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    if (!plan->params.mask.lengths)
        return pairs_in_row(plan, 0) * (double)s->batch * (double)s->heads;
    double pairs = 0;
    for (int64_t b = 0; b < s->batch; b++)
        pairs += pairs_in_row(plan, b);
    return pairs * (double)s->heads;
}

/* Rows whose tile takes about TILE_NS, in whole panels. */
static int choose_rows(const attn_plan *plan, double row_ns)
{
    int panel = plan->kernels->panel_rows;
    int rows = row_ns * MOST_ROWS <= TILE_NS ? MOST_ROWS : (int)(TILE_NS / row_ns);
    rows -= rows % panel;
    return rows < panel ? panel : rows;
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    const attn_kernels *kernels = attn_kernels_find(machine->isa);
    if (!kernels)
        return attn_error_set(error, ATTN_INTERNAL, NULL, "no kernels for %s",
                              attn_isa_name(machine->isa));
    *plan = (attn_plan){
        .mixer = &attn_mixer_exact, .kernels = kernels, .shape = *shape, .params = *params};
    double flops_per_pair = 2.0 * (double)(shape->d + shape->dv);
    double pair_ns = flops_per_pair / machine->attend_flops_per_ns;
    plan->tile_rows = choose_rows(plan, pair_ns * (double)shape->m);
    if (plan->tile_rows > shape->n)
        plan->tile_rows = (int)shape->n;
    int64_t tiles;
    if (__builtin_mul_overflow(shape->batch * shape->heads, blocks_of(plan), &tiles))
        return attn_error_set(error, ATTN_INVALID, "batch",
                              "batch, heads and n make more tiles than can be counted");
    plan->phases[plan->phase_count++] = (attn_phase){
        .name = "attend",
        .tiles = tiles,
        .tile_ns = visible_pairs(plan) * pair_ns / (double)tiles + TILE_OPEN_NS,
    };
    plan->scratch_bytes = kernels->attend_bytes(plan->tile_rows, (int)shape->d, (int)shape->dv,
                                                params->mask.key_mask != NULL);
    return ATTN_OK;
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    (void)phase;
    const attn_shape *s = &plan->shape;
    const attn_mask *mask = &plan->params.mask;
    place at = place_of(plan, tile);
    int64_t keys = valid_keys(plan, at.b);
    int64_t kv_head = at.h / (s->heads / s->kv_heads);
    float *out = attn_view_row(io->out, at.b, at.h, at.first);

    int64_t real = mask->lengths && s->n == s->m ? keys - at.first : at.rows;
    int rows = real < 0 ? 0 : real < at.rows ? (int)real : at.rows;
    for (int r = rows; r < at.rows; r++)
        for (int64_t c = 0; c < s->dv; c++)
            out[r * io->out.row + c] = 0;
    if (io->scores)
        io->scores[tile] = 0;
    if (rows == 0)
        return ATTN_OK;

    int64_t last = mask->causal ? at.first + (s->m - s->n) : ATTN_NO_EDGE;
    if (mask->causal && keys > last + rows)
        keys = last + rows;
    attn_span span = {.begin = 0, .end = keys, .first = -ATTN_NO_EDGE, .last = last};
    const attn_tile job = {
        .q = attn_view_row(io->q, at.b, at.h, at.first),
        .k = attn_view_row(io->k, at.b, kv_head, 0),
        .v = attn_view_row(io->v, at.b, kv_head, 0),
        .out = out,
        .q_stride = io->q.row,
        .k_stride = io->k.row,
        .v_stride = io->v.row,
        .out_stride = io->out.row,
        .rows = rows,
        .d = (int)s->d,
        .dv = (int)s->dv,
        .scale = plan->params.scale,
        .spans = &span,
        .span_count = 1,
        .key_mask = mask->key_mask ? mask->key_mask + at.b * s->m : NULL,
    };
    uint64_t unwanted = 0;
    return plan->kernels->attend(&job, scratch, io->scores ? &io->scores[tile] : &unwanted);
}

const attn_mixer attn_mixer_exact = {
    .name = "exact",
    .summary = "softmax attention, fused: every visible key, never an n x m matrix",
    .traits = ATTN_CAUSAL | ATTN_EXACT,
    .plan = plan,
    .run = run,
};
