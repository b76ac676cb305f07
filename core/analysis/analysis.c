/* A head's chain of steps: which stage a step belongs to, how many a stage has, what they cost. */
#include "attn/analysis.h"

#include "analysis/head.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    STEP_PRODUCTS = 1 << 21, /* multiplications of a block of rows: a millisecond or so */
    PANEL_ENTRIES = 1 << 21, /* entries of the matrix that a panel's columns read */
    MOST_PANEL = 32,
};
/* What a step costs, for the order in which jobs are served; about right is enough. */
#define PRODUCT_NS      0.4
#define EXPONENTIAL_NS  8.0
#define ENTRY_NS        0.5
#define REDUCE_ENTRY_NS 0.6  /* of the matrix, a row or column that is reduced */
#define VALUE_PAIR_NS   10.0 /* the iteration is quadratic in the number of values */

/* In the order in which they run. */
enum {
    KEYS,
    SCORES,
    REDUCE_SCORES,
    SCORE_VALUES,
    ATTENTION,
    ESTIMATE,
    COMPARE,
    REDUCE,
    VALUES,
};

static attn_head_stage *const stages[ATTN_ANALYSIS_STAGES] = {
    [KEYS] = attn_head_keys,
    [SCORES] = attn_head_scores,
    [REDUCE_SCORES] = attn_head_reduce,
    [SCORE_VALUES] = attn_head_score_values,
    [ATTENTION] = attn_head_attention,
    [ESTIMATE] = attn_head_estimate,
    [COMPARE] = attn_head_compare,
    [REDUCE] = attn_head_reduce,
    [VALUES] = attn_head_values,
};

static attn_status check(const attn_mix_params *params, const int64_t *windows, int window_count,
                         attn_error *error)
{
    if (params->mask.lengths || params->mask.key_mask)
        return attn_error_set(error, ATTN_UNSUPPORTED,
                              params->mask.lengths ? "lengths" : "key_mask",
                              "an analysis sees whole sequences; cut q and k to the valid part");
    if (window_count < 0 || window_count > ATTN_MAX_WINDOWS)
        return attn_error_set(error, ATTN_INVALID, "windows",
                              "windows has %d entries, expected at most %d", window_count,
                              ATTN_MAX_WINDOWS);
    for (int i = 0; i < window_count; i++)
        if (windows[i] < 1)
            return attn_error_set(error, ATTN_INVALID, "windows",
                                  "windows[%d] is %lld, expected at least 1", i,
                                  (long long)windows[i]);
    return ATTN_OK;
}

static int64_t between(int64_t least, int64_t value, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static double entries(const attn_analysis *a)
{
    return (double)a->shape.n * (double)a->shape.m;
}

/* The matrix that performer stands in for A with is its answer to v = I. */
static void plan_estimate(attn_analysis *a, const attn_machine *machine)
{
    attn_shape shape = a->shape;
    attn_error refusal = {0};
    shape.dv = shape.m;
    attn_status status = attn_mixer_plan(attn_mixer_find("performer"), machine, &a->params, &shape,
                                         &a->estimate, &refusal);
    if (status != ATTN_OK)
        snprintf(a->why_not, sizeof a->why_not, "%.159s", refusal.message);
}

static void count_steps(attn_analysis *a)
{
    const attn_shape *s = &a->shape;
    int64_t blocks = (s->n + a->block - 1) / a->block;
    int64_t panels = attn_lapack_steps(s->n, s->m, a->panel);
    int64_t *steps = a->stage_steps;
    steps[KEYS] = steps[SCORE_VALUES] = steps[VALUES] = 1;
    steps[SCORES] = steps[ATTENTION] = blocks;
    steps[REDUCE_SCORES] = steps[REDUCE] = panels;
    if (!a->why_not[0]) {
        for (int p = 0; p < a->estimate.phase_count; p++)
            steps[ESTIMATE] += a->estimate.phases[p].tiles;
        steps[COMPARE] = 1;
    }
    for (int i = 0; i < ATTN_ANALYSIS_STAGES; i++)
        a->steps += steps[i];
}

static void predict(attn_analysis *a)
{
    const attn_shape *s = &a->shape;
    double block_entries = (double)a->block * (double)s->m;
    double count = (double)(s->n < s->m ? s->n : s->m);
    double *ns = a->stage_ns;
    ns[KEYS] = ((double)s->d + (a->why_not[0] ? 0 : (double)s->m)) * (double)s->m * ENTRY_NS;
    ns[SCORES] = block_entries * (double)s->d * PRODUCT_NS;
    ns[ATTENTION] = ns[SCORES] + block_entries * (EXPONENTIAL_NS + a->window_count * ENTRY_NS);
    /* Half of it by matrix and vector, on the average over shrinking rests a third of the whole. */
    ns[REDUCE] = ns[REDUCE_SCORES] = entries(a) * (double)a->panel * REDUCE_ENTRY_NS / 3;
    ns[VALUES] = ns[SCORE_VALUES] = count * count * VALUE_PAIR_NS;
    ns[COMPARE] = entries(a) * ENTRY_NS;
    if (a->stage_steps[ESTIMATE] > 0)
        ns[ESTIMATE] = attn_plan_ns(&a->estimate) / (double)a->stage_steps[ESTIMATE];
}

attn_status attn_analysis_plan(attn_analysis *a, const attn_machine *machine,
                               const attn_mix_params *params, const attn_shape *shape,
                               const int64_t *windows, int window_count, attn_error *error)
{
    attn_status status = check(params, windows, window_count, error);
    if (status != ATTN_OK)
        return status;
    *a = (attn_analysis){
        .shape = {1, 1, 1, shape->n, shape->m, shape->d, shape->m},
        .params = *params,
        .windows = windows,
        .window_count = window_count,
    };
    attn_plan exact; /* whose planning checks sizes and scale */
    status = attn_mixer_plan(attn_mixer_find("exact"), machine, params, &a->shape, &exact, error);
    if (status != ATTN_OK)
        return status;
    a->block =
        between(1, (int64_t)(STEP_PRODUCTS / ((double)shape->m * (double)shape->d)), shape->n);
    a->panel = between(1, (int64_t)(PANEL_ENTRIES / entries(a)), MOST_PANEL);
    plan_estimate(a, machine);
    count_steps(a);
    predict(a);
    a->workspace_bytes = attn_head_lay_out(a, NULL, NULL);
    a->scratch_bytes = a->why_not[0] ? 0 : a->estimate.scratch_bytes;
    return ATTN_OK;
}

double attn_analysis_ns(const attn_analysis *a)
{
    double ns = 0;
    for (int i = 0; i < ATTN_ANALYSIS_STAGES; i++)
        ns += (double)a->stage_steps[i] * a->stage_ns[i];
    return ns;
}

/* The stage of a step, which becomes the number within the stage. */
static int stage_of(const attn_analysis *a, int64_t *step)
{
    int i = 0;
    while (*step >= a->stage_steps[i])
        *step -= a->stage_steps[i++];
    return i;
}

double attn_analysis_step_ns(const attn_analysis *a, int64_t step)
{
    return a->stage_ns[stage_of(a, &step)];
}

attn_status attn_analysis_run(const attn_analysis *a, const attn_analysis_io *io, int64_t step,
                              attn_arena *scratch)
{
    int stage = stage_of(a, &step);
    attn_head_step at = {.analysis = a, .io = io, .step = step, .scratch = scratch};
    attn_head_lay_out(a, io->workspace, &at.space);
    return stages[stage](&at);
}
