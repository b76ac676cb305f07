#include "tests/bench/support/task.h"

#include "attn/blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Box and Muller (1958). */
static double normal(void)
{
    double u = (rand() + 1.0) / (RAND_MAX + 1.0), w = rand() / (RAND_MAX + 1.0);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * w);
}

bool bench_pool_open(bench_pool *pool)
{
    *pool = (bench_pool){0};
    float **arrays[] = {&pool->q,   &pool->k,          &pool->v,
                        &pool->out, &pool->product[0], &pool->product[1]};
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        *arrays[a] = aligned_alloc(ATTN_ALIGN, BENCH_POOL_FLOATS * sizeof(float));
        if (!*arrays[a])
            return false;
        for (size_t i = 0; i < BENCH_POOL_FLOATS; i++)
            (*arrays[a])[i] = (float)normal();
    }
    return true;
}

void bench_pool_close(bench_pool *pool)
{
    free(pool->q);
    free(pool->k);
    free(pool->v);
    free(pool->out);
    free(pool->product[0]);
    free(pool->product[1]);
}

bench_task bench_sgemm_task(bench_pool *pool, int workers)
{
    bench_task task = {
        .workers = workers, .flops = 2.0 * workers * pow(BENCH_SGEMM_SIDE, 3), .pool = pool};
    snprintf(task.label, sizeof task.label, "sgemm, %d at a time", workers);
    return task;
}

/* Of the visible pairs; half of them when causal, as is usual. */
static double attend_flops(const attn_shape *s, const attn_mask *mask)
{
    double pairs = 0;
    for (int64_t b = 0; b < s->batch; b++)
        pairs += mask->lengths ? (double)(mask->lengths[b] * mask->lengths[b])
                               : (double)s->n * (double)s->m;
    return pairs * 2 * (double)(s->heads * (s->d + s->dv)) / (mask->causal ? 2 : 1);
}

bench_task bench_attend_task(bench_pool *pool, const attn_machine *machine, const attn_shape *s,
                             const attn_mask *mask, int workers)
{
    bench_task task = {.workers = workers, .flops = attend_flops(s, mask), .pool = pool};
    attn_mix_params params;
    attn_mix_params_init(&params, s->d);
    params.mask = *mask;
    attn_mixer_plan(attn_mixer_find("exact"), machine, &params, s, &task.plan, NULL);
    task.io = (attn_mix_io){.q = attn_view_dense(pool->q, s->heads, s->n, s->d),
                            .k = attn_view_dense(pool->k, s->kv_heads, s->m, s->d),
                            .v = attn_view_dense(pool->v, s->kv_heads, s->m, s->dv),
                            .out = attn_view_dense(pool->out, s->heads, s->n, s->dv)};
    snprintf(task.label, sizeof task.label, "%-6s %-6s n %lld d %lld%s",
             attn_isa_name(machine->isa), mask->causal ? "causal" : "full", (long long)s->n,
             (long long)s->d, workers > 1 ? ", 2 workers" : "");
    return task;
}

static attn_status run_sgemm(const void *context, int64_t tile, attn_arena *scratch)
{
    (void)scratch;
    const bench_pool *pool = ((const bench_task *)context)->pool;
    attn_blas_sgemm(BENCH_SGEMM_SIDE, BENCH_SGEMM_SIDE, BENCH_SGEMM_SIDE, pool->q, pool->k,
                    pool->product[tile]);
    return ATTN_OK;
}

static attn_status run_attend(const void *context, int64_t tile, attn_arena *scratch)
{
    const bench_task *task = context;
    return task->plan.mixer->run(&task->plan, &task->io, 0, tile, scratch);
}

double bench_task_run_ns(const bench_task *task, bench_crew *crews)
{
    bench_work work = {.run = run_sgemm, .context = task, .tiles = task->workers};
    if (task->plan.mixer)
        work = (bench_work){.run = run_attend,
                            .context = task,
                            .tiles = task->plan.phases[0].tiles,
                            .scratch_bytes = task->plan.scratch_bytes};
    double start = bench_now_ns();
    attn_status status = bench_crew_run(&crews[task->workers - 1], &work);
    double took_ns = bench_now_ns() - start;
    return status == ATTN_OK ? took_ns : NAN;
}

/* (m) weights of query i of head h, which add up to 1. */
static void reference_weights(const bench_task *task, int64_t h, int64_t i, double *weights)
{
    const attn_shape *s = &task->plan.shape;
    int64_t keys = task->plan.params.mask.causal ? i + 1 + s->m - s->n : s->m;
    const float *q = attn_view_row(task->io.q, 0, h, i);
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->m; j++) {
        const float *k = attn_view_row(task->io.k, 0, h, j);
        double logit = 0;
        for (int64_t c = 0; c < s->d; c++)
            logit += (double)q[c] * k[c];
        weights[j] = j < keys ? task->plan.params.scale * logit : -INFINITY;
        maximum = fmax(maximum, weights[j]);
    }
    for (int64_t j = 0; j < s->m; j++)
        sum += weights[j] = exp(weights[j] - maximum);
    for (int64_t j = 0; j < s->m; j++)
        weights[j] /= sum;
}

double bench_task_error(const bench_task *task, bench_crew *crews)
{
    const int64_t every = 61; /* rows apart: coprime to every tile size */
    const attn_shape *s = &task->plan.shape;
    double *weights = malloc((size_t)s->m * sizeof *weights);
    double worst = weights && !isnan(bench_task_run_ns(task, crews)) ? 0 : NAN, v = 0;
    for (int64_t i = 0; i < s->heads * s->m * s->dv; i++)
        v = fmax(v, fabs((double)task->io.v.data[i]));
    for (int64_t row = 0; row < s->heads * s->n && !isnan(worst); row += every) {
        int64_t h = row / s->n, i = row % s->n;
        reference_weights(task, h, i, weights);
        for (int64_t c = 0; c < s->dv; c++) {
            double expected = 0;
            for (int64_t j = 0; j < s->m; j++)
                expected += weights[j] * attn_view_row(task->io.v, 0, h, j)[c];
            double error = fabs(attn_view_row(task->io.out, 0, h, i)[c] - expected);
            worst = error <= worst ? worst : error;
        }
    }
    free(weights);
    return worst / v;
}
