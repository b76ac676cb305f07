/* Runs of queries through the fused attention tile. */
#include "mixers/fused.h"

#include <math.h>

attn_status attn_fused_open(const attn_mixer *mixer, const attn_machine *machine,
                            const attn_mix_params *params, const attn_shape *shape, attn_plan *plan,
                            attn_error *error)
{
    *plan = (attn_plan){.mixer = mixer,
                        .kernels = attn_kernels_find(machine->isa),
                        .shape = *shape,
                        .params = *params};
    if (plan->kernels)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INTERNAL, NULL, "no kernels for %s",
                          attn_isa_name(machine->isa));
}

/* Of one query-key pair: its score and its share of the answer. */
static double pair_flops(const attn_plan *plan)
{
    return 2.0 * (double)(plan->shape.d + plan->shape.dv);
}

int attn_fused_rows(const attn_plan *plan, int64_t keys, int64_t most)
{
    int panel = plan->kernels->panel_rows;
    double rows = plan->kernels->tile_flops / (pair_flops(plan) * (double)keys);
    int whole = rows < (double)most ? (int)rows : (int)most;
    whole -= whole % panel;
    whole = whole < panel ? panel : whole;
    return whole < plan->shape.n ? whole : (int)plan->shape.n;
}

size_t attn_fused_bytes(const attn_plan *plan, int rows)
{
    return plan->kernels->attend_bytes(rows, (int)plan->shape.d, (int)plan->shape.dv,
                                       plan->params.mask.key_mask != NULL);
}

attn_status attn_run_phase(attn_plan *plan, const char *name, int64_t runs, int64_t tiles_a_run,
                           double ns, attn_error *error)
{
    int64_t tiles;
    if (__builtin_mul_overflow(runs, tiles_a_run, &tiles))
        return attn_error_set(error, ATTN_INVALID, "batch",
                              "batch, heads and n make more tiles than can be counted");
    const attn_phase phase = {.name = name, .tiles = tiles, .tile_ns = ns / (double)tiles};
    return attn_plan_append(plan, phase, error);
}

static int64_t round_up(int64_t rows, int64_t to)
{
    return (rows + to - 1) / to * to;
}

/* Lanes that a tile's queries fill, those that stay idle in a panel counting a quarter: every key
 * is fetched for a panel as a whole. */
static double busy_lanes(const attn_kernels *k, int64_t rows)
{
    double filled = (double)round_up(rows, k->lane_rows);
    return filled + ((double)round_up(rows, k->panel_rows) - filled) / 4;
}

double attn_fused_ns(const attn_plan *plan, const attn_rates *rates, double tiles,
                     const attn_fused_work *work)
{
    const attn_kernels *k = plan->kernels;
    double rows = tiles * (double)work->rows;
    double columns = (double)(plan->shape.d + plan->shape.dv * (work->resumes ? 2 : 1));
    double floats = (double)round_up(work->rows, k->panel_rows) * columns;
    double cut_keys = work->cuts * (k->lane_rows + k->key_group) / 2;
    double pairs = fmin(work->pairs + rows * cut_keys, rows * (work->keys + k->key_group));
    return tiles * (rates->attend_tile_ns + floats * rates->attend_panel_ns) +
           pairs * busy_lanes(k, work->rows) / (double)work->rows *
               (pair_flops(plan) * rates->attend_flop_ns + rates->attend_score_ns);
}

static int64_t runs_a_head(const attn_plan *plan)
{
    return (plan->shape.n + plan->tile_rows - 1) / plan->tile_rows;
}

attn_status attn_fused_row_phase(attn_plan *plan, const attn_machine *machine, const char *name,
                                 const attn_fused_work *work, attn_error *error)
{
    int64_t heads = plan->shape.batch * plan->shape.heads, runs = runs_a_head(plan);
    double tiles = (double)heads * (double)runs;
    return attn_run_phase(plan, name, heads, runs,
                          attn_fused_ns(plan, &machine->rates, tiles, work), error);
}

double attn_visible_share(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    const uint8_t *mask = plan->params.mask.key_mask;
    int64_t visible = 0, valid = 0;
    for (int64_t b = 0; mask && b < s->batch; b++) {
        int64_t length = attn_valid_keys(plan, b);
        valid += length;
        for (int64_t j = 0; j < length; j++)
            visible += mask[b * s->m + j] != 0;
    }
    return valid ? (double)visible / (double)valid : 1;
}

int64_t attn_valid_keys(const attn_plan *plan, int64_t b)
{
    return plan->params.mask.lengths ? plan->params.mask.lengths[b] : plan->shape.m;
}

int64_t attn_valid_rows(const attn_plan *plan, int64_t b)
{
    const attn_shape *s = &plan->shape;
    return plan->params.mask.lengths && s->n == s->m ? attn_valid_keys(plan, b) : s->n;
}

/* Sum over rows i < `rows` of i + from, cut off at 0 and at `keys`. */
static double ramp(double rows, double from, double keys)
{
    double begin = from < 0 ? fmin(-from, rows) : 0;
    double flat = fmin(fmax(keys - from, begin), rows);
    double slope = (flat - begin) * (from + (begin + flat - 1) / 2);
    return slope + (rows - flat) * keys;
}

double attn_band_pairs(const attn_plan *plan, int64_t left, int64_t right)
{
    double offset = (double)(plan->shape.m - plan->shape.n), pairs = 0;
    for (int64_t b = 0; b < plan->shape.batch; b++) {
        double keys = (double)attn_valid_keys(plan, b), rows = (double)attn_valid_rows(plan, b);
        pairs +=
            ramp(rows, offset + (double)right + 1, keys) - ramp(rows, offset - (double)left, keys);
    }
    return pairs * (double)plan->shape.heads * attn_visible_share(plan);
}

attn_run attn_fused_place(const attn_plan *plan, int64_t tile)
{
    const attn_shape *s = &plan->shape;
    int64_t runs = runs_a_head(plan), head = tile / runs;
    int64_t first = (runs - 1 - tile % runs) * plan->tile_rows;
    int64_t left = s->n - first;
    return (attn_run){.b = head / s->heads,
                      .h = head % s->heads,
                      .first = first,
                      .step = 1,
                      .rows = (int)(left < plan->tile_rows ? left : plan->tile_rows)};
}

void attn_fused_clear(const attn_plan *plan, const attn_mix_io *io, const attn_run *run, int from)
{
    for (int r = from; r < run->rows; r++) {
        float *out = attn_view_row(io->out, run->b, run->h, run->first + r * run->step);
        for (int64_t c = 0; c < plan->shape.dv; c++)
            out[c] = 0;
    }
}

int attn_fused_clear_padding(const attn_plan *plan, const attn_mix_io *io, const attn_run *run)
{
    int64_t valid = attn_valid_rows(plan, run->b);
    int64_t real = valid > run->first ? (valid - run->first + run->step - 1) / run->step : 0;
    int rows = real < run->rows ? (int)real : run->rows;
    attn_fused_clear(plan, io, run, rows);
    return rows;
}

attn_status attn_fused_run(const attn_plan *plan, const attn_mix_io *io, const attn_fused_job *job,
                           attn_arena *scratch)
{
    const attn_shape *s = &plan->shape;
    const attn_mask *mask = &plan->params.mask;
    const attn_run *run = &job->run;
    int64_t kv_head = run->h / (s->heads / s->kv_heads);
    uint64_t unwanted = 0;
    const attn_view k = job->k ? *job->k : io->k, v = job->v ? *job->v : io->v;
    const uint8_t *key_mask = mask->key_mask && !job->k ? mask->key_mask + run->b * s->m : NULL;
    int rows = attn_fused_clear_padding(plan, io, run);
    if (rows == 0)
        return ATTN_OK;
    const attn_tile tile = {
        .q = attn_view_row(io->q, run->b, run->h, run->first),
        .k = attn_view_row(k, run->b, kv_head, 0),
        .v = attn_view_row(v, run->b, kv_head, 0),
        .out = attn_view_row(io->out, run->b, run->h, run->first),
        .q_stride = io->q.row * run->step,
        .k_stride = k.row,
        .v_stride = v.row,
        .out_stride = io->out.row * run->step,
        .rows = rows,
        .d = (int)s->d,
        .dv = (int)s->dv,
        .scale = plan->params.scale,
        .spans = job->spans,
        .span_count = job->span_count,
        .key_mask = key_mask,
        .state = job->state,
        .state_stride = run->step,
        .resume = job->resume,
    };
    return plan->kernels->attend(&tile, scratch, job->scores ? job->scores : &unwanted);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

attn_span attn_band(const attn_plan *plan, const attn_run *run, int64_t left, int64_t right)
{
    int64_t keys = attn_valid_keys(plan, run->b);
    int64_t p = run->first + plan->shape.m - plan->shape.n;
    int64_t begin = clamp(p - left, 0, keys);
    int64_t end = clamp(p + run->rows + right, begin, keys);
    return (attn_span){.begin = begin,
                       .step = 1,
                       .count = end - begin,
                       .first = p - left - begin,
                       .last = p + right - begin};
}

attn_status attn_fused_run_band(const attn_plan *plan, const attn_mix_io *io, int64_t tile,
                                int64_t left, int64_t right, attn_arena *scratch)
{
    attn_run at = attn_fused_place(plan, tile);
    attn_span span = attn_band(plan, &at, left, right);
    const attn_fused_job job = {.run = at,
                                .spans = &span,
                                .span_count = 1,
                                .scores = io->scores ? &io->scores[tile] : NULL};
    return attn_fused_run(plan, io, &job, scratch);
}
