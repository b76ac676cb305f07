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
                        .params = *params,
                        .ranges = {.keys = shape->m, .count = 1}};
    if (!plan->kernels)
        return attn_error_set(error, ATTN_INTERNAL, NULL, "no kernels for %s",
                              attn_isa_name(machine->isa));
    plan->tile_flops = machine->tile_flops != 0 ? machine->tile_flops : plan->kernels->tile_flops;
    return ATTN_OK;
}

/* Of one query-key pair: its score and its share of the answer. */
static double pair_flops(const attn_plan *plan)
{
    return 2.0 * (double)(plan->shape.d + plan->shape.dv);
}

int attn_fused_height(const attn_plan *plan, int64_t keys, int64_t most)
{
    int panel = plan->kernels->panel_rows;
    double rows = plan->tile_flops / (pair_flops(plan) * (double)keys);
    int whole = rows < (double)most ? (int)rows : (int)most;
    whole -= whole % panel;
    return whole < panel ? panel : whole;
}

int attn_fused_rows(const attn_plan *plan, int64_t keys, int64_t most)
{
    int rows = attn_fused_height(plan, keys, most);
    return rows < plan->shape.n ? rows : (int)plan->shape.n;
}

attn_ranges attn_fused_cut(const attn_plan *plan, int64_t keys)
{
    double fit = plan->tile_flops / (pair_flops(plan) * plan->kernels->panel_rows);
    int64_t length = fit < 1 ? 1 : fit < (double)keys ? (int64_t)fit : keys;
    int64_t least = (keys + ATTN_FUSED_MOST_RANGES - 1) / ATTN_FUSED_MOST_RANGES;
    length = length < least ? least : length;
    return (attn_ranges){.keys = length, .count = (int)((keys + length - 1) / length)};
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

/* Runs of a head that have a tile in a phase: those from the last one on that are not wholly before
 * its range. In the first they all have, to answer 0 where there is nothing to see. */
static int64_t runs_reaching(const attn_plan *plan, int range, int64_t right)
{
    const attn_shape *s = &plan->shape;
    int64_t runs = runs_a_head(plan);
    /* Row i sees keys below i + 1 + m - n + right. */
    int64_t first_row = range * plan->ranges.keys - right - (s->m - s->n);
    int64_t idle = range > 0 && first_row > 0 ? first_row / plan->tile_rows : 0;
    return runs - (idle < runs ? idle : runs - 1);
}

/* Keys of the longest span of a tile whose rows see `keys` keys each. */
static int64_t longest_span(const attn_plan *plan, int64_t keys, int64_t right)
{
    int64_t wider = keys + plan->tile_rows - 1;
    if (right == ATTN_NO_EDGE)
        return keys;
    return wider < plan->shape.m ? wider : plan->shape.m;
}

/* Append a range's phase, of `runs` tiles a head. */
static attn_status add_range(attn_plan *plan, const attn_machine *machine, const char *name,
                             int64_t runs, bool resumes, double pairs, double cuts,
                             attn_error *error)
{
    const attn_shape *s = &plan->shape;
    int64_t heads = s->batch * s->heads;
    const attn_fused_work work = {.rows = plan->tile_rows,
                                  .keys = (double)s->m,
                                  .pairs = pairs,
                                  .cuts = cuts,
                                  .resumes = resumes};
    double ns = attn_fused_ns(plan, &machine->rates, (double)heads * (double)runs, &work);
    return attn_run_phase(plan, name, heads, runs, ns, error);
}

attn_status attn_fused_row_phases(attn_plan *plan, const attn_machine *machine, const char *name,
                                  int64_t keys, int64_t right, int64_t most, double pairs,
                                  double cuts, attn_error *error)
{
    double weights[ATTN_FUSED_MOST_RANGES], sum = 0;
    plan->tile_rows = attn_fused_rows(plan, keys, most);
    plan->scratch_bytes = attn_fused_bytes(plan, plan->tile_rows);
    int64_t span = longest_span(plan, keys, right);
    plan->ranges = attn_fused_cut(plan, span);
    attn_status status = ATTN_OK;
    if (plan->ranges.count > 1)
        status = attn_fused_keep_states(plan, error);
    for (int r = 0; r < plan->ranges.count; r++) {
        int64_t left = span - r * plan->ranges.keys;
        weights[r] = (double)(left < plan->ranges.keys ? left : plan->ranges.keys) *
                     (double)runs_reaching(plan, r, right);
        sum += weights[r];
    }
    for (int r = 0; r < plan->ranges.count && status == ATTN_OK; r++)
        status = add_range(plan, machine, name, runs_reaching(plan, r, right), r > 0,
                           pairs * (weights[r] / sum), cuts, error);
    return status;
}

attn_status attn_fused_keep_states(attn_plan *plan, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    int64_t rows, bytes;
    if (plan->keeps_states)
        return ATTN_OK;
    if (__builtin_mul_overflow(s->batch * s->heads, s->n, &rows) ||
        __builtin_mul_overflow(rows, (int64_t)sizeof(attn_row_state), &bytes))
        return attn_error_set(error, ATTN_INVALID, "n", "batch, heads and n are too many rows");
    plan->keeps_states = true;
    plan->states_at = attn_arena_round(plan->shared_bytes);
    plan->shared_bytes = plan->states_at + (size_t)bytes;
    return ATTN_OK;
}

attn_row_state *attn_fused_state(const attn_plan *plan, const attn_mix_io *io, const attn_run *run)
{
    const attn_shape *s = &plan->shape;
    if (!plan->keeps_states)
        return NULL;
    void *states = (unsigned char *)io->shared + plan->states_at;
    return (attn_row_state *)states + (run->b * s->heads + run->h) * s->n + run->first;
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

/* Pairs of a head of batch row b. */
static double band_pairs(const attn_plan *plan, int64_t b, int64_t left, int64_t right)
{
    double offset = (double)(plan->shape.m - plan->shape.n);
    double keys = (double)attn_valid_keys(plan, b), rows = (double)attn_valid_rows(plan, b);
    return ramp(rows, offset + (double)right + 1, keys) - ramp(rows, offset - (double)left, keys);
}

/* Without lengths all batch rows are alike, and there may be more than anybody could count. */
double attn_band_pairs(const attn_plan *plan, int64_t left, int64_t right)
{
    double pairs = 0;
    for (int64_t b = 0; plan->params.mask.lengths && b < plan->shape.batch; b++)
        pairs += band_pairs(plan, b, left, right);
    if (!plan->params.mask.lengths)
        pairs = (double)plan->shape.batch * band_pairs(plan, 0, left, right);
    return pairs * (double)plan->shape.heads * attn_visible_share(plan);
}

/* Where tile `tile` lies when only the last `runs` runs of each head have one. */
static attn_run place_last(const attn_plan *plan, int64_t tile, int64_t runs)
{
    const attn_shape *s = &plan->shape;
    int64_t head = tile / runs;
    int64_t first = (runs_a_head(plan) - 1 - tile % runs) * plan->tile_rows;
    int64_t left = s->n - first;
    return (attn_run){.b = head / s->heads,
                      .h = head % s->heads,
                      .first = first,
                      .step = 1,
                      .rows = (int)(left < plan->tile_rows ? left : plan->tile_rows)};
}

attn_run attn_fused_place(const attn_plan *plan, int64_t tile)
{
    return place_last(plan, tile, runs_a_head(plan));
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

attn_status attn_fused_run_range(const attn_plan *plan, const attn_mix_io *io,
                                 const attn_fused_job *job, attn_span span, int range,
                                 attn_arena *scratch)
{
    attn_fused_job part = *job;
    if (plan->ranges.count > 1) {
        int64_t skipped = clamp(range * plan->ranges.keys, 0, span.count);
        span.begin += skipped * span.step;
        span.count = clamp(span.count - skipped, 0, plan->ranges.keys);
        span.first -= skipped;
        span.last -= skipped;
    }
    if (range > 0 && span.count == 0)
        return ATTN_OK;
    part.spans = &span;
    part.span_count = 1;
    part.state = attn_fused_state(plan, io, &job->run);
    part.resume = range > 0;
    return attn_fused_run(plan, io, &part, scratch);
}

attn_status attn_fused_run_band(const attn_plan *plan, const attn_mix_io *io, int range,
                                int64_t tile, int64_t left, int64_t right, attn_arena *scratch)
{
    attn_run at = place_last(plan, tile, runs_reaching(plan, range, right));
    const attn_fused_job job = {.run = at, .scores = io->scores ? &io->scores[tile] : NULL};
    return attn_fused_run_range(plan, io, &job, attn_band(plan, &at, left, right), range, scratch);
}
