/* The stages of one head: the scores and their spectrum, then A, the figures of its rows, what
 * performer makes of it, and its spectrum. A's reduction destroys it, so it comes last. */
#include "analysis/head.h"

#include <math.h>
#include <string.h>

static size_t take(size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += attn_arena_round(bytes);
    return at;
}

size_t attn_head_lay_out(const attn_analysis *a, void *base, attn_head_space *space)
{
    size_t n = (size_t)a->shape.n, m = (size_t)a->shape.m, used = 0;
    size_t estimates = a->why_not[0] ? 0 : 1, count = n < m ? n : m;
    size_t keys = take(&used, (size_t)a->shape.d * m * sizeof(double));
    size_t matrix = take(&used, n * m * sizeof(double));
    size_t beside = take(&used, count * sizeof(double));
    size_t work =
        take(&used, attn_lapack_work_doubles(a->shape.n, a->shape.m, a->panel) * sizeof(double));
    size_t identity = take(&used, estimates * m * m * sizeof(float));
    size_t estimate = take(&used, estimates * n * m * sizeof(float));
    size_t shared = take(&used, estimates * a->estimate.shared_bytes);
    unsigned char *from = base;
    if (from)
        *space = (attn_head_space){
            .keys = (double *)(void *)(from + keys),
            .matrix = (double *)(void *)(from + matrix),
            .beside = (double *)(void *)(from + beside),
            .work = (double *)(void *)(from + work),
            .identity = (float *)(void *)(from + identity),
            .estimate = (float *)(void *)(from + estimate),
            .shared = from + shared,
        };
    return used;
}

attn_status attn_head_keys(const attn_head_step *at)
{
    const attn_analysis *a = at->analysis;
    const attn_analysis_io *io = at->io;
    const attn_head_space *space = &at->space;
    attn_head_report *r = io->report;
    int64_t m = a->shape.m;
    r->entropy_mean = r->entropy_max = 0;
    r->entropy_min = INFINITY;
    r->relative_frobenius = NAN;
    memset(r->window_mass, 0, sizeof r->window_mass);
    for (int64_t j = 0; j < m; j++)
        for (int64_t c = 0; c < a->shape.d; c++)
            space->keys[c * m + j] = (double)io->k[j * io->k_row + c];
    if (a->why_not[0])
        return ATTN_OK;
    memset(space->identity, 0, (size_t)(m * m) * sizeof *space->identity);
    for (int64_t j = 0; j < m; j++)
        space->identity[j * (m + 1)] = 1;
    return ATTN_OK;
}

/* Row i of scale Q K^T. Keys lie transposed, so that the compiler vectorises over them without
 * changing the order of any sum. */
static void score_row(const attn_head_step *at, int64_t i, double *row)
{
    const attn_analysis *a = at->analysis;
    const float *query = at->io->q + i * at->io->q_row;
    int64_t m = a->shape.m;
    memset(row, 0, (size_t)m * sizeof *row);
    for (int64_t c = 0; c < a->shape.d; c++) {
        double q = (double)a->params.scale * (double)query[c];
        const double *key = at->space.keys + c * m;
        for (int64_t j = 0; j < m; j++)
            row[j] += q * key[j];
    }
}

/* The rows of a step: a block, or what is left. */
static int64_t first_row(const attn_head_step *at)
{
    return at->step * at->analysis->block;
}

static int64_t end_row(const attn_head_step *at)
{
    int64_t end = first_row(at) + at->analysis->block, n = at->analysis->shape.n;
    return end < n ? end : n;
}

attn_status attn_head_scores(const attn_head_step *at)
{
    for (int64_t i = first_row(at); i < end_row(at); i++)
        score_row(at, i, at->space.matrix + i * at->analysis->shape.m);
    return ATTN_OK;
}

/* How many keys row i sees: the first so many. */
static int64_t visible_keys(const attn_analysis *a, int64_t i)
{
    int64_t keys = a->params.mask.causal ? i + 1 + a->shape.m - a->shape.n : a->shape.m;
    return keys < 0 ? 0 : keys;
}

/* The first rows that see no key, under a causal mask with more queries than keys. */
static int64_t blind_rows(const attn_analysis *a)
{
    int64_t rows = a->params.mask.causal ? a->shape.n - a->shape.m : 0;
    return rows < 0 ? 0 : rows;
}

/* Scores to probabilities; returns the row's entropy, log Z - sum p s with s <= 0 the scores below
 * the largest. */
static double normalise(double *row, int64_t keys, int64_t m)
{
    double most = row[0], mass = 0, mean = 0;
    for (int64_t j = 1; j < keys; j++)
        most = fmax(most, row[j]);
    for (int64_t j = 0; j < keys; j++) {
        double below = row[j] - most;
        row[j] = exp(below);
        mass += row[j];
        mean += row[j] > 0 ? row[j] * below : 0; /* 0 x -infinity is no part of it */
    }
    for (int64_t j = 0; j < keys; j++)
        row[j] /= mass;
    memset(row + keys, 0, (size_t)(m - keys) * sizeof *row);
    return log(mass) - mean / mass;
}

static double mass_inside(const attn_analysis *a, const double *row, int64_t i, int64_t window)
{
    bool causal = a->params.mask.causal;
    int64_t self = i + a->shape.m - a->shape.n, m = a->shape.m;
    int64_t first = self - (causal ? window - 1 : window), last = causal ? self : self + window;
    double mass = 0;
    for (int64_t j = first < 0 ? 0 : first; j <= last && j < m; j++)
        mass += row[j];
    return mass;
}

static void note_row(const attn_analysis *a, const double *row, int64_t i, double entropy,
                     attn_head_report *r)
{
    double rows = (double)(a->shape.n - blind_rows(a));
    entropy = fmax(entropy, 0); /* a rounding may leave -1e-17 of a row with a single key */
    r->entropy_mean += entropy / rows;
    r->entropy_min = fmin(r->entropy_min, entropy);
    r->entropy_max = fmax(r->entropy_max, entropy);
    for (int w = 0; w < a->window_count; w++)
        r->window_mass[w] += mass_inside(a, row, i, a->windows[w]) / rows;
}

attn_status attn_head_attention(const attn_head_step *at)
{
    const attn_analysis *a = at->analysis;
    int64_t m = a->shape.m;
    for (int64_t i = first_row(at); i < end_row(at); i++) {
        double *row = at->space.matrix + i * m;
        int64_t keys = visible_keys(a, i);
        if (keys == 0) {
            memset(row, 0, (size_t)m * sizeof *row);
            continue;
        }
        score_row(at, i, row);
        note_row(a, row, i, normalise(row, keys, m), at->io->report);
    }
    return ATTN_OK;
}

attn_status attn_head_estimate(const attn_head_step *at)
{
    const attn_analysis *a = at->analysis;
    const attn_analysis_io *io = at->io;
    const attn_plan *plan = &a->estimate;
    int64_t m = a->shape.m, tile = at->step;
    const attn_mix_io mix = {
        .q = {(float *)(uintptr_t)io->q, 0, 0, io->q_row},
        .k = {(float *)(uintptr_t)io->k, 0, 0, io->k_row},
        .v = attn_view_dense(at->space.identity, 1, m, m),
        .out = attn_view_dense(at->space.estimate, 1, a->shape.n, m),
        .shared = at->space.shared,
    };
    int phase = 0;
    while (tile >= plan->phases[phase].tiles)
        tile -= plan->phases[phase++].tiles;
    return plan->mixer->run(plan, &mix, phase, tile, at->scratch);
}

attn_status attn_head_compare(const attn_head_step *at)
{
    const attn_shape *shape = &at->analysis->shape;
    const double *exact = at->space.matrix;
    double difference = 0, whole = 0;
    for (int64_t i = 0; i < shape->n * shape->m; i++) {
        double off = (double)at->space.estimate[i] - exact[i];
        difference += off * off;
        whole += exact[i] * exact[i];
    }
    at->io->report->relative_frobenius = sqrt(difference / whole);
    return ATTN_OK;
}

/* Both spectra begin in singular_values, which A's comes to last. */
static attn_reduction reduction_of(const attn_head_step *at)
{
    const attn_analysis *a = at->analysis;
    return (attn_reduction){.rows = a->shape.n,
                            .columns = a->shape.m,
                            .panel = a->panel,
                            .matrix = at->space.matrix,
                            .values = at->io->report->singular_values,
                            .beside = at->space.beside,
                            .work = at->space.work};
}

attn_status attn_head_reduce(const attn_head_step *at)
{
    attn_reduction reduction = reduction_of(at);
    attn_lapack_reduce(&reduction, at->step);
    return ATTN_OK;
}

attn_status attn_head_score_values(const attn_head_step *at)
{
    attn_head_report *r = at->io->report;
    const attn_shape *shape = &at->analysis->shape;
    int64_t count = shape->n < shape->m ? shape->n : shape->m;
    attn_reduction reduction = reduction_of(at);
    attn_status status = attn_lapack_values(&reduction);
    memcpy(r->score_singular_values, r->singular_values,
           (size_t)count * sizeof *r->singular_values);
    return status;
}

attn_status attn_head_values(const attn_head_step *at)
{
    attn_reduction reduction = reduction_of(at);
    attn_status status = attn_lapack_values(&reduction);
    attn_head_spectrum(at->analysis, at->io->report);
    return status;
}
