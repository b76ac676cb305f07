/* What all tasks share: sgemm, the workspace, and a timed run. */
#include "server/bench/task.h"

#include "attn/blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double brief_ns = 20e6;
enum {
    MOST_ROUNDS = 32
};

attn_isa srv_bench_sgemm_isa(void)
{
    static const struct {
        const char *core;
        attn_isa isa;
    } known[] = {{"SkylakeX", ATTN_ISA_AVX512},
                 {"Cooperlake", ATTN_ISA_AVX512},
                 {"SapphireRapids", ATTN_ISA_AVX512},
                 {"Haswell", ATTN_ISA_AVX2},
                 {"Zen", ATTN_ISA_AVX2},
                 {"Excavator", ATTN_ISA_AVX2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(attn_blas_name(), known[i].core))
            return known[i].isa;
    return ATTN_ISA_SCALAR;
}

static attn_status run_sgemm(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase;
    (void)scratch;
    const int64_t side = SRV_BENCH_SGEMM_SIDE;
    const srv_bench_pool *pool = ((const srv_bench_task *)context)->pool;
    attn_blas_sgemm(side, side, side, pool->factor[0], pool->factor[1],
                    pool->product + tile * side * side);
    return ATTN_OK;
}

srv_bench_task srv_bench_sgemm_task(const srv_bench_pool *pool, int workers)
{
    srv_bench_task task = {.workers = workers,
                           .isa = srv_bench_sgemm_isa(),
                           .flops = 2.0 * workers * pow(SRV_BENCH_SGEMM_SIDE, 3),
                           .pool = pool,
                           .work = {.run = run_sgemm, .phase_count = 1},
                           .phase = {.name = "sgemm", .tiles = workers, .tile_ns = 1e8}};
    snprintf(task.label, sizeof task.label, "sgemm, %d at a time", workers);
    return task;
}

attn_status srv_bench_task_share(srv_bench_task *task, size_t shared_bytes, attn_error *error)
{
    size_t bytes = attn_arena_round(shared_bytes) + ATTN_ALIGN;
    task->shared = aligned_alloc(ATTN_ALIGN, bytes);
    task->shared_bytes = shared_bytes;
    return task->shared ? ATTN_OK
                        : attn_error_set(error, ATTN_NO_MEMORY, NULL,
                                         "no memory for a workspace of %zu bytes", bytes);
}

void srv_bench_task_close(srv_bench_task *task)
{
    attn_program_close(task->program);
    free(task->phases);
    free(task->shared);
    task->program = NULL;
    task->phases = NULL;
    task->shared = NULL;
}

/* So many that they last about as long as brief work may. */
static int rounds_of(const srv_bench_task *task)
{
    double rounds = task->last_ns > 0 ? brief_ns / task->last_ns : 1;
    return rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : (int)rounds;
}

static void record_run(srv_bench_task *task, const srv_bench_result *result)
{
    srv_bench_sample(&task->ns, result->ns);
    srv_bench_sample(&task->busy_ns, result->busy_ns);
    srv_bench_sample(&task->rate, task->flops / result->ns);
    srv_bench_sample(&task->busy_rate, task->flops * task->workers / result->busy_ns);
}

attn_status srv_bench_task_run(srv_bench_task *task, srv_executor *executor, bool record)
{
    srv_bench_work work = task->work;
    work.context = work.context ? work.context : task;
    work.phases = work.phases ? work.phases : &task->phase;
    work.rounds = rounds_of(task);
    if (record && task->last_ns < brief_ns)
        srv_bench_run(executor, &work);
    srv_bench_result result = srv_bench_run(executor, &work);
    task->last_ns = result.ns;
    size_t bytes = task->shared_bytes + result.scratch_bytes;
    task->workspace_bytes = bytes > task->workspace_bytes ? bytes : task->workspace_bytes;
    if (record && result.status == ATTN_OK)
        record_run(task, &result);
    return result.status;
}
