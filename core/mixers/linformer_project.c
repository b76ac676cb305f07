/* Linformer's K' = E K and V' = F V: a tile makes some rows of both, out of a range of the
 * positions. Means are cut by rows alone: a row's positions lie together, and no two rows share
 * any. */
#include "mixers/linformer.h"

#include <string.h>

enum {
    PROJECT_ROWS = 96,     /* rows of K' and V' a tile makes at most: whole panels of every ISA */
    MEAN_FLOATS = 1 << 21, /* of K and V that a tile averages, unless a single row has more */
    CHUNK = 1024,          /* positions whose coefficients are made at a time */
};

/* Positions whose coefficients are made at a time; 0 when all are used where they lie. */
static int64_t chunk_length(const attn_plan *plan)
{
    const attn_mix_params *p = &plan->params;
    bool stretched =
        p->projection == ATTN_GIVEN && attn_linformer_longest_row(plan) > p->projection_length;
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
attn_ranges attn_linformer_project_ranges(const attn_plan *plan)
{
    int64_t m = plan->shape.m;
    return plan->params.projection == ATTN_MEAN ? (attn_ranges){.keys = m, .count = 1}
                                                : attn_fused_cut(plan, m);
}

static size_t chunk_bytes(const attn_plan *plan)
{
    return (size_t)(project_rows(plan) * chunk_length(plan)) * sizeof(float);
}

size_t attn_linformer_project_bytes(const attn_plan *plan)
{
    if (plan->params.projection == ATTN_MEAN)
        return 0;
    return attn_arena_round(chunk_bytes(plan)) +
           plan->kernels->shorten_bytes((int)plan->shape.d + (int)plan->shape.dv);
}

/* Predicted time to shorten every head: a mean adds each row once; a coefficient times a row of K
 * and of V is the tile's inner product, and may first have to be made. Either writes the projected
 * rows. */
static double project_ns(const attn_plan *plan, const attn_rates *rates)
{
    const attn_shape *s = &plan->shape;
    double heads = (double)s->batch * (double)s->kv_heads, m = (double)s->m;
    double columns = (double)(s->d + s->dv), k = (double)plan->params.k;
    if (plan->params.projection == ATTN_MEAN)
        return heads * (m + k) * columns * rates->copy_float_ns;
    double made = chunk_length(plan) ? rates->norm_float_ns : 0;
    return heads * (m * k * (2 * columns * rates->attend_flop_ns + made) +
                    2 * k * columns * rates->attend_panel_ns);
}

attn_status attn_linformer_add_project(attn_plan *plan, const attn_machine *machine,
                                       attn_error *error)
{
    const attn_shape *s = &plan->shape;
    int ranges = attn_linformer_project_ranges(plan).count;
    double ns = project_ns(plan, &machine->rates) / ranges;
    attn_status status = ATTN_OK;
    for (int r = 0; r < ranges && status == ATTN_OK; r++)
        status = attn_run_phase(plan, "project", s->batch * s->kv_heads, project_blocks(plan), ns,
                                error);
    return status;
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
    int64_t L = attn_valid_keys(plan, b), length = attn_linformer_project_ranges(plan).keys;
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
    attn_linformer_layout at = attn_linformer_layout_of(plan);
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
            average(attn_linformer_keys(plan, b), in.L, first, count, in.visible, of[i].x,
                    of[i].stride, of[i].columns, of[i].out);
        return ATTN_OK;
    }
    coefficients e = coefficients_of(plan, io, g, first, count, false);
    coefficients f = coefficients_of(plan, io, g, first, count, true);
    if (e.rows == f.rows)
        return project(plan, &e, &in, of, 2, scratch);
    attn_status status = project(plan, &e, &in, &of[0], 1, scratch);
    return status == ATTN_OK ? project(plan, &f, &in, &of[1], 1, scratch) : status;
}

attn_status attn_linformer_run_project(const attn_plan *plan, const attn_mix_io *io, int range,
                                       int64_t tile, attn_arena *scratch)
{
    int64_t blocks = project_blocks(plan), rows = project_rows(plan), head = tile / blocks;
    int64_t b = head / plan->shape.kv_heads, g = head % plan->shape.kv_heads;
    int64_t first = tile % blocks * rows, left = attn_linformer_keys(plan, b) - first;
    if (left <= 0)
        return ATTN_OK;
    return make_rows(plan, io, range, b, g, (int)first, (int)(left < rows ? left : rows), scratch);
}
