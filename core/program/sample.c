/* Exact attention for a few rows. They lie anywhere, so their queries are gathered first. Under a
 * causal mask each sees another prefix of the keys: the keys between two samples' last ones are
 * taken in by all samples from the later one on, continuing their softmax. So do the phases, a
 * range of the keys each where there are many. */
#include "program/sample.h"

#include "mixers/fused.h"
#include "random.h"

#include <string.h>

enum {
    SAMPLE_STREAM = 77, /* of the seed: apart from what mixers draw */
};

/* Lengths that make queries padding; NULL: all rows are alike, of which there may be billions. */
static const int64_t *lengths_of(const attn_shape *s, const attn_mask *mask)
{
    return s->n == s->m ? mask->lengths : NULL;
}

static int64_t valid_rows(const attn_shape *s, const attn_mask *mask)
{
    const int64_t *lengths = lengths_of(s, mask);
    int64_t total = lengths ? 0 : s->batch * s->n;
    for (int64_t b = 0; lengths && b < s->batch; b++)
        total += lengths[b];
    return total;
}

/* Position `index` of all that are not padding; *b and *before go on from the last call's. */
static int64_t position(const attn_shape *s, const attn_mask *mask, int64_t index, int64_t *b,
                        int64_t *before)
{
    const int64_t *lengths = lengths_of(s, mask);
    if (!lengths) {
        *b = index / s->n;
        return index % s->n;
    }
    while (index - *before >= lengths[*b])
        *before += lengths[(*b)++];
    return index - *before;
}

void attn_samples_choose(attn_samples *samples, const attn_sampling *sampling,
                         const attn_shape *shape, const attn_mask *mask)
{
    int64_t total = valid_rows(shape, mask), b = 0, before = 0;
    samples->count = total < sampling->rows ? (int)total : sampling->rows;
    for (int s = 0; s < samples->count; s++) {
        /* Parts of a total below 2^62 and a count below 2^9: in double the edges are near enough,
         * and consecutive ones share theirs. */
        double part = (double)total / samples->count;
        int64_t from = (int64_t)(part * s), end = (int64_t)(part * (s + 1));
        end = s + 1 == samples->count ? total : end;
        uint64_t draw = attn_random_bits(sampling->seed, SAMPLE_STREAM, (uint64_t)s);
        int64_t index = from + (int64_t)(draw % (uint64_t)(end - from));
        samples->at[s].i = position(shape, mask, index, &b, &before);
        samples->at[s].b = b;
    }
}

/* Samples of one batch row that share a tile. */
typedef struct group {
    int first, count;
} group;

typedef struct sample {
    attn_step step;
    attn_plan plan; /* exact's, for its kernels and masks; its phases have groups for every head */
    size_t states;  /* of softmaxes, (heads, samples): offset in floats */
    attn_samples samples;
    attn_mix_regions regions;
    attn_region to;
    int group_count;
    group groups[ATTN_SAMPLES_MAX];
} sample;

static const sample *of_step(const attn_step *step)
{
    return (const sample *)(const void *)step;
}

static void make_groups(sample *s, int most)
{
    for (int first = 0; first < s->samples.count;) {
        int end = first + 1;
        while (end < s->samples.count && end - first < most &&
               s->samples.at[end].b == s->samples.at[first].b)
            end++;
        s->groups[s->group_count++] = (group){first, end - first};
        first = end;
    }
}

/* Keys from the first on that the sample may see, hidden ones included. */
static int64_t visible(const sample *s, int index)
{
    int64_t keys = attn_valid_keys(&s->plan, s->samples.at[index].b);
    int64_t last = s->samples.at[index].i + s->plan.shape.m - s->plan.shape.n;
    if (!s->plan.params.mask.causal || last >= keys)
        return keys;
    return last < 0 ? 0 : last + 1;
}

/* Let the rows of `tile` take in keys [from, end). */
static attn_status take_keys(const sample *s, attn_tile *tile, int64_t from, int64_t end,
                             attn_arena *scratch)
{
    uint64_t unwanted = 0;
    const attn_span span = {.begin = from,
                            .step = 1,
                            .count = end - from,
                            .first = -ATTN_NO_EDGE,
                            .last = ATTN_NO_EDGE};
    tile->spans = &span;
    tile->span_count = 1;
    return s->plan.kernels->attend(tile, scratch, &unwanted);
}

/* Let a group take in keys [seen, last), as far as each sample sees them. */
static attn_status attend_group(const sample *s, const group *g, int64_t seen, int64_t last,
                                attn_tile *tile, attn_arena *scratch)
{
    attn_status status = ATTN_OK;
    for (int r = 0; r < g->count && status == ATTN_OK; r++) {
        int64_t end = visible(s, g->first + r);
        end = end > last ? last : end < seen ? seen : end;
        if (end > seen || !tile->resume)
            status = take_keys(s, tile, seen, end, scratch);
        seen = end;
        tile->q += tile->q_stride;
        tile->out += tile->out_stride;
        tile->state++;
        tile->rows--;
        tile->resume = true;
    }
    return status;
}

static attn_phase phase_of(const attn_step *step, int phase)
{
    return of_step(step)->plan.phases[phase];
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const sample *s = of_step(step);
    const attn_frame *frame = tile->frame;
    const attn_shape *shape = &s->plan.shape;
    const group *g = &s->groups[tile->index % s->group_count];
    int64_t h = tile->index / s->group_count, b = s->samples.at[g->first].b;
    int64_t kv_head = h / (shape->heads / shape->kv_heads);
    const uint8_t *key_mask = s->plan.params.mask.key_mask;
    size_t row_bytes = (size_t)shape->d * sizeof(float);
    float *q = attn_arena_take(tile->scratch, (size_t)g->count * row_bytes);
    void *states = frame->data[ATTN_ARRAY_SHARED] + s->states;
    attn_view k = attn_region_view(s->regions.k, frame), v = attn_region_view(s->regions.v, frame);
    attn_view to = attn_region_view(s->to, frame), from = attn_region_view(s->regions.q, frame);
    int64_t keys = s->plan.ranges.keys, begin = tile->phase * keys;
    if (!q)
        return ATTN_NO_MEMORY;
    for (int r = 0; r < g->count; r++)
        memcpy(q + (size_t)r * (size_t)shape->d,
               attn_view_row(from, b, h, s->samples.at[g->first + r].i), row_bytes);
    attn_tile rows = {
        .q = q,
        .k = attn_view_row(k, b, kv_head, 0),
        .v = attn_view_row(v, b, kv_head, 0),
        .out = attn_view_row(to, 0, h, g->first),
        .q_stride = shape->d,
        .k_stride = k.row,
        .v_stride = v.row,
        .out_stride = to.row,
        .rows = g->count,
        .d = (int)shape->d,
        .dv = (int)shape->dv,
        .scale = s->plan.params.scale,
        .key_mask = key_mask ? key_mask + b * shape->m : NULL,
        .state = (attn_row_state *)states + h * s->samples.count + g->first,
        .state_stride = 1,
        .resume = tile->phase > 0,
    };
    return attend_group(s, g, begin, begin + keys, &rows, tile->scratch);
}

static const attn_step_kind kind = {.phase = phase_of, .run = run};

static size_t scratch_of(const sample *s, int rows)
{
    return attn_arena_round((size_t)rows * (size_t)s->plan.shape.d * sizeof(float)) +
           attn_fused_bytes(&s->plan, rows);
}

/* Under a causal mask each sample is a tile, for itself and those after it: half of them. */
static double predicted_ns(const sample *s, const attn_rates *rates)
{
    double heads = (double)s->plan.shape.heads;
    bool causal = s->plan.params.mask.causal;
    attn_fused_work work = {.rows = (s->samples.count + s->group_count - 1) / s->group_count,
                            .keys = (double)s->plan.shape.m,
                            .cuts = causal ? 1 : 0.5,
                            .resumes = causal};
    for (int i = 0; i < s->samples.count; i++)
        work.pairs += heads * (double)visible(s, i);
    work.pairs *= attn_visible_share(&s->plan);
    if (!causal)
        return attn_fused_ns(&s->plan, rates, heads * s->group_count, &work);
    work.rows = (work.rows + 1) / 2;
    return attn_fused_ns(&s->plan, rates, heads * s->samples.count, &work);
}

attn_status attn_sample_add(attn_program *program, const attn_machine *machine,
                            const attn_mix_params *params, const attn_shape *shape,
                            const attn_samples *samples, const attn_mix_regions *regions,
                            attn_region to, attn_error *error)
{
    attn_plan plan;
    attn_status status =
        attn_fused_open(attn_mixer_find("exact"), machine, params, shape, &plan, error);
    if (status != ATTN_OK)
        return status;
    plan.ranges = attn_fused_cut(&plan, shape->m);
    sample *s = attn_program_add(program, &kind, sizeof *s, plan.ranges.count, error);
    if (!s)
        return ATTN_NO_MEMORY;
    s->plan = plan;
    int rows = attn_fused_rows(&s->plan, shape->m, ATTN_SAMPLES_MAX);
    s->samples = *samples;
    s->regions = *regions;
    s->to = to;
    make_groups(s, rows);
    s->step.scratch_bytes = scratch_of(s, rows < samples->count ? rows : samples->count);
    double states = (double)samples->count * (double)shape->heads;
    status = attn_program_take(program, states * sizeof(attn_row_state) / sizeof(float), &s->states,
                               error);
    for (int r = 0; r < plan.ranges.count && status == ATTN_OK; r++)
        status = attn_run_phase(&s->plan, "sample", shape->heads, s->group_count,
                                predicted_ns(s, &machine->rates) / plan.ranges.count, error);
    return status;
}
