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
 * project, attend; the last is the fused tile on k keys. */
#include "mixers/fused.h"
#include "mixers/mixers.h"
#include "random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_ROWS = 192,       /* queries a tile */
    PROJECT_ROWS = 96,     /* rows of K' and V' a tile makes at most: whole panels of every ISA */
    MEAN_FLOATS = 1 << 21, /* of K and V that a tile averages, unless a single row has more */
    CHUNK = 1024,          /* positions whose coefficients are made at a time */
    RANDOM_STREAM = 1,
    DRAW_NS = 60,       /* about what drawing a number costs */
    DRAW_COUNT = 16384, /* numbers a tile draws */
};

_Static_assert(1 + 2 * ATTN_FUSED_MOST_RANGES <= ATTN_MAX_PHASES, "a plan has room for all phases");

/* Where things lie in the shared workspace, in floats. */
typedef struct layout {
    size_t drawn, keys, values, total;
} layout;

static layout layout_of(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    size_t k = (size_t)plan->params.k, heads = (size_t)(s->batch * s->kv_heads);
    layout at = {0};
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

/* Rows of K' that batch row b has: 0 when it has no visible key. */
static int64_t projected_keys(const attn_plan *plan, int64_t b)
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

static int64_t longest_row(const attn_plan *plan)
{
    int64_t longest = plan->params.mask.lengths ? 0 : plan->shape.m;
    for (int64_t b = 0; plan->params.mask.lengths && b < plan->shape.batch; b++)
        if (attn_valid_keys(plan, b) > longest)
            longest = attn_valid_keys(plan, b);
    return longest;
}

static void warn_if_stretched(attn_plan *plan)
{
    int64_t longest = longest_row(plan), length = plan->params.projection_length;
    if (plan->params.projection == ATTN_GIVEN && longest > length)
        snprintf(plan->warning, sizeof plan->warning,
                 "linformer: the projection covers %lld positions and was interpolated to %lld",
                 (long long)length, (long long)longest);
}

/* Positions whose coefficients are made at a time; 0 when all are used where they lie. */
static int64_t chunk_length(const attn_plan *plan)
{
    const attn_mix_params *p = &plan->params;
    bool stretched = p->projection == ATTN_GIVEN && longest_row(plan) > p->projection_length;
    if (p->projection == ATTN_MEAN || (!stretched && !p->mask.key_mask))
        return 0;
    return plan->shape.m < CHUNK ? plan->shape.m : CHUNK;
}

/* Rows of K' and V' that a tile makes. */
static int64_t project_rows(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    int64_t k = plan->params.k, rows = attn_fused_height(plan, s->m, PROJECT_ROWS);
    if (plan->params.projection == ATTN_MEAN) {
        rows = MEAN_FLOATS / ((s->m + k - 1) / k * (s->d + s->dv));
        rows = rows < 1 ? 1 : rows < PROJECT_ROWS ? rows : PROJECT_ROWS;
    }
    return rows < k ? rows : k;
}

static int64_t project_blocks(const attn_plan *plan)
{
    return (plan->params.k + project_rows(plan) - 1) / project_rows(plan);
}

/* Of positions, out of which the phases make them. */
static attn_ranges project_ranges(const attn_plan *plan)
{
    int64_t m = plan->shape.m;
    return plan->params.projection == ATTN_MEAN ? (attn_ranges){.keys = m, .count = 1}
                                                : attn_fused_cut(plan, m);
}

static int64_t draw_parts(const attn_plan *plan)
{
    return (plan->shape.m + DRAW_COUNT - 1) / DRAW_COUNT;
}

static size_t chunk_bytes(const attn_plan *plan)
{
    return (size_t)(project_rows(plan) * chunk_length(plan)) * sizeof(float);
}

static size_t project_bytes(const attn_plan *plan)
{
    if (plan->params.projection == ATTN_MEAN)
        return 0;
    return attn_arena_round(chunk_bytes(plan)) +
           plan->kernels->shorten_bytes((int)plan->shape.d + (int)plan->shape.dv);
}

static attn_status add_draw_phase(attn_plan *plan, attn_error *error)
{
    int64_t parts = draw_parts(plan);
    const attn_phase draw = {.name = "draw",
                             .tiles = plan->params.k * parts,
                             .tile_ns = (double)plan->shape.m / (double)parts * DRAW_NS};
    return attn_plan_append(plan, draw, error);
}

static attn_status add_project_phases(attn_plan *plan, const attn_machine *machine,
                                      attn_error *error)
{
    const attn_shape *s = &plan->shape;
    /* A coefficient times a row of K and of V costs what a query-key pair does; a mean adds each
     * row once. */
    double uses = plan->params.projection == ATTN_MEAN ? 1 : (double)plan->params.k;
    double pairs = (double)s->batch * (double)s->kv_heads * (double)s->m * uses;
    int ranges = project_ranges(plan).count;
    attn_status status = ATTN_OK;
    for (int r = 0; r < ranges && status == ATTN_OK; r++)
        status = attn_fused_phase(plan, machine, "project", s->batch * s->kv_heads,
                                  project_blocks(plan), pairs / ranges, error);
    return status;
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
    plan->shared_bytes = layout_of(plan).total * sizeof(float);
    warn_if_stretched(plan);
    if (params->projection == ATTN_GAUSSIAN)
        status = add_draw_phase(plan, error);
    if (status == ATTN_OK)
        status = add_project_phases(plan, machine, error);
    if (status == ATTN_OK)
        status = attn_fused_row_phases(
            plan, machine, "attend", plan->params.k, ATTN_NO_EDGE, MOST_ROWS,
            (double)shape->batch * (double)shape->heads * (double)shape->n * k, error);
    /* The projected keys have no mask, so the tile gathers nothing. */
    size_t attend =
        plan->kernels->attend_bytes(plan->tile_rows, (int)shape->d, (int)shape->dv, false);
    size_t project = project_bytes(plan);
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

/* Rows [first, first + count) of E or F for one head, as they lie in memory. */
typedef struct coefficients {
    const float *rows;
    int64_t stride, length;
    int first, count;
} coefficients;

/* Positions [from, end) of the L that a batch row has. */
typedef struct positions {
    int64_t from, end, L;
    const uint8_t *visible; /* (L); NULL: all are */
} positions;

/* Value of a coefficient row, stretched from its own length to L, at position j of L. */
static float stretched(const float *row, int64_t length, int64_t L, int64_t j)
{
    double ratio = (double)length / (double)L, at = ((double)j + 0.5) * ratio - 0.5;
    double last = (double)(length - 1);
    at = at < 0 ? 0 : at > last ? last : at;
    int64_t left = (int64_t)at, right = left + 1 < length ? left + 1 : left;
    double share = at - (double)left;
    return (float)(ratio * ((1 - share) * (double)row[left] + share * (double)row[right]));
}

/* Coefficients for `count` positions from `from` on, those of hidden keys 0. */
static void fill_chunk(const coefficients *c, const positions *at, int64_t from, int64_t count,
                       int64_t stride, float *chunk)
{
    for (int r = 0; r < c->count; r++) {
        const float *row = c->rows + r * c->stride;
        for (int64_t j = from; j < from + count; j++) {
            bool hidden = at->visible && !at->visible[j];
            float value = at->L > c->length ? stretched(row, c->length, at->L, j) : row[j];
            chunk[r * stride + j - from] = hidden ? 0 : value;
        }
    }
}

/* Outputs grow by coefficients times the rows at those positions of what is shortened; from the
 * first one on they begin at 0. */
static attn_status project(const attn_plan *plan, const coefficients *c, const positions *at,
                           const attn_shortened *of, int of_count, attn_arena *scratch)
{
    bool as_it_lies = at->L <= c->length && !at->visible;
    attn_shortening s = {.e = c->rows + at->from,
                         .stride = c->stride,
                         .rows = c->count,
                         .count = at->end - at->from,
                         .of_count = of_count};
    size_t mark = scratch->used;
    float *chunk = NULL;
    attn_status status = ATTN_OK;
    if (!as_it_lies) {
        s.e = chunk = attn_arena_take(scratch, chunk_bytes(plan));
        s.stride = s.count = chunk_length(plan);
        if (!chunk)
            return ATTN_NO_MEMORY;
    }
    for (int i = 0; i < of_count; i++) {
        s.of[i] = of[i];
        if (at->from == 0)
            memset(of[i].out, 0, (size_t)c->count * (size_t)of[i].columns * sizeof(float));
    }
    for (int64_t from = at->from; from < at->end && status == ATTN_OK; from += s.count) {
        s.count = at->end - from < s.count ? at->end - from : s.count;
        if (chunk)
            fill_chunk(c, at, from, s.count, s.stride, chunk);
        for (int i = 0; i < of_count; i++)
            s.of[i].x = of[i].x + from * of[i].stride;
        status = plan->kernels->shorten(&s, scratch);
    }
    attn_arena_rewind(scratch, mark);
    return status;
}

/* Means of segments `first` to `first + count` of k over the first L rows. */
static void average(int64_t k, int64_t L, int first, int count, const uint8_t *visible,
                    const float *rows, ptrdiff_t row_stride, int64_t columns, float *to)
{
    for (int s = first; s < first + count; s++, to += columns) {
        int64_t begin = s * L / k, end = (s + 1) * L / k;
        memset(to, 0, (size_t)columns * sizeof *to);
        for (int64_t j = begin; j < end; j++)
            for (int64_t c = 0; (!visible || visible[j]) && c < columns; c++)
                to[c] += rows[j * row_stride + c];
        for (int64_t c = 0; c < columns; c++)
            to[c] /= (float)(end - begin);
    }
}

/* `count` rows of E or, for the values, F, from `first` on. */
static coefficients coefficients_of(const attn_plan *plan, const attn_mix_io *io, int64_t g,
                                    int first, int count, bool values)
{
    const attn_mix_params *p = &plan->params;
    int64_t m = plan->shape.m, length = p->projection_length,
            head = p->projection_heads > 1 ? g : 0;
    coefficients c = {.first = first, .count = count, .stride = m, .length = m};
    c.rows = (const float *)io->shared + first * m;
    if (p->projection == ATTN_GIVEN) {
        c.stride = c.length = length;
        c.rows = (values ? p->f : p->e) + (head * p->k + first) * length;
    }
    return c;
}

/* A range of the positions that batch row b has. */
static positions positions_of(const attn_plan *plan, int64_t b, int range)
{
    const attn_mask *mask = &plan->params.mask;
    int64_t L = attn_valid_keys(plan, b), length = project_ranges(plan).keys;
    int64_t from = range * length, left = L - from;
    return (positions){.from = from,
                       .end = from + (left < length ? left : length),
                       .L = L,
                       .visible = mask->key_mask ? mask->key_mask + b * plan->shape.m : NULL};
}

/* Let a range of positions into `count` rows of K' and V' of kv head g of batch row b, from `first`
 * on. */
static attn_status make_rows(const attn_plan *plan, const attn_mix_io *io, int range, int64_t b,
                             int64_t g, int first, int count, attn_arena *scratch)
{
    const attn_shape *s = &plan->shape;
    const attn_mix_params *p = &plan->params;
    layout at = layout_of(plan);
    float *shared = io->shared;
    int64_t row = (b * s->kv_heads + g) * p->k + first;
    const positions in = positions_of(plan, b, range);
    const attn_shortened of[] = {{.x = attn_view_row(io->k, b, g, 0),
                                  .stride = io->k.row,
                                  .columns = (int)s->d,
                                  .out = shared + at.keys + row * s->d},
                                 {.x = attn_view_row(io->v, b, g, 0),
                                  .stride = io->v.row,
                                  .columns = (int)s->dv,
                                  .out = shared + at.values + row * s->dv}};
    if (p->projection == ATTN_MEAN) {
        for (int i = 0; i < 2; i++)
            average(projected_keys(plan, b), in.L, first, count, in.visible, of[i].x, of[i].stride,
                    of[i].columns, of[i].out);
        return ATTN_OK;
    }
    coefficients e = coefficients_of(plan, io, g, first, count, false);
    coefficients f = coefficients_of(plan, io, g, first, count, true);
    if (e.rows == f.rows)
        return project(plan, &e, &in, of, 2, scratch);
    attn_status status = project(plan, &e, &in, &of[0], 1, scratch);
    return status == ATTN_OK ? project(plan, &f, &in, &of[1], 1, scratch) : status;
}

static attn_status run_project(const attn_plan *plan, const attn_mix_io *io, int range,
                               int64_t tile, attn_arena *scratch)
{
    int64_t blocks = project_blocks(plan), rows = project_rows(plan), head = tile / blocks;
    int64_t b = head / plan->shape.kv_heads, g = head % plan->shape.kv_heads;
    int64_t first = tile % blocks * rows, left = projected_keys(plan, b) - first;
    if (left <= 0)
        return ATTN_OK;
    return make_rows(plan, io, range, b, g, (int)first, (int)(left < rows ? left : rows), scratch);
}

static attn_status run_attend(const attn_plan *plan, const attn_mix_io *io, int range, int64_t tile,
                              attn_arena *scratch)
{
    const attn_shape *s = &plan->shape;
    layout at = layout_of(plan);
    attn_run place = attn_fused_place(plan, tile);
    float *shared = io->shared;
    const attn_view k = attn_view_dense(shared + at.keys, s->kv_heads, plan->params.k, s->d);
    const attn_view v = attn_view_dense(shared + at.values, s->kv_heads, plan->params.k, s->dv);
    const attn_span span = {.step = 1,
                            .count = projected_keys(plan, place.b),
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
    int ranges = project_ranges(plan).count;
    if (phase < drawing) {
        run_draw(plan, io->shared, tile);
        return ATTN_OK;
    }
    phase -= drawing;
    return phase < ranges ? run_project(plan, io, phase, tile, scratch)
                          : run_attend(plan, io, phase - ranges, tile, scratch);
}

const attn_mixer attn_mixer_linformer = {
    .name = "linformer",
    .summary = "keys and values shortened to params.k rows: by e and f, by means, or at random",
    .traits = 0,
    .plan = plan,
    .run = run,
};
