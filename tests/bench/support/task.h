/* What a benchmark times: a mixer's plan or OpenBLAS's sgemm, on one worker or two. */
#ifndef BENCH_TASK_H
#define BENCH_TASK_H

#include "attn/mixer.h"
#include "tests/bench/support/crew.h"
#include "tests/bench/support/samples.h"

enum {
    BENCH_SGEMM_SIDE = 2048,
    BENCH_POOL_FLOATS = BENCH_SGEMM_SIDE * BENCH_SGEMM_SIDE, /* in each array; enough for all */
    BENCH_MOST_WORKERS = 2,
};

/* Standard normal arrays that all tasks share. */
typedef struct bench_pool {
    float *q, *k, *v, *out, *product[BENCH_MOST_WORKERS];
} bench_pool;

/* False when there is no memory. Close it in either case. */
bool bench_pool_open(bench_pool *pool);
void bench_pool_close(bench_pool *pool);

typedef struct bench_task {
    char label[48];
    int workers; /* 1 or 2 */
    double flops;
    attn_plan plan; /* of one phase; of no mixer: this is sgemm, once for each worker */
    attn_mix_io io;
    bench_pool *pool;
    bench_samples rate; /* GFLOP/s */
} bench_task;

/* `workers` multiplications of square matrices at a time. */
bench_task bench_sgemm_task(bench_pool *pool, int workers);

/* Exact attention over the pool's arrays; what the mask points to is borrowed. The label says
 * instruction set, causal or full, and sizes. */
bench_task bench_attend_task(bench_pool *pool, const attn_machine *machine, const attn_shape *shape,
                             const attn_mask *mask, int workers);

/* Run once on the crew of that many workers, crews[workers - 1]. Returns the time, or NaN. */
double bench_task_run_ns(const bench_task *task, bench_crew *crews);

/* Largest error of sampled rows against float64, over the largest |v|; only for a mask that is
 * nothing or causal, with heads == kv_heads. NaN when the task does not run. */
double bench_task_error(const bench_task *task, bench_crew *crews);

#endif
