#include "tests/bench/support/crew.h"

#include <pthread.h>
#include <stdlib.h>

attn_status bench_crew_open(bench_crew *crew, int workers, size_t scratch_bytes, attn_error *error)
{
    *crew = (bench_crew){.scratch_bytes = attn_arena_round(scratch_bytes)};
    if (workers > 1) {
        crew->executor = srv_executor_open(workers, error);
        return crew->executor ? ATTN_OK : error->status;
    }
    if (posix_memalign(&crew->scratch, ATTN_ALIGN, crew->scratch_bytes) != 0)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for %zu bytes of scratch",
                              crew->scratch_bytes);
    return ATTN_OK;
}

void bench_crew_close(bench_crew *crew)
{
    srv_executor_close(crew->executor);
    free(crew->scratch);
}

typedef struct one_phase_job {
    srv_job job; /* first, so that a srv_job is one of these */
    const bench_work *work;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool begun, ended;
} one_phase_job;

static bool next(srv_job *job, attn_phase *phase)
{
    one_phase_job *self = (one_phase_job *)job;
    if (self->begun)
        return false;
    self->begun = true;
    *phase = (attn_phase){.name = "bench", .tiles = self->work->tiles, .tile_ns = 1e6};
    return true;
}

static attn_status run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    const bench_work *work = ((one_phase_job *)job)->work;
    return work->run(work->context, tile, scratch);
}

static void done(srv_job *job)
{
    one_phase_job *self = (one_phase_job *)job;
    pthread_mutex_lock(&self->lock);
    self->ended = true;
    pthread_cond_signal(&self->over);
    pthread_mutex_unlock(&self->lock);
}

static attn_status run_on_executor(srv_executor *executor, const bench_work *work)
{
    one_phase_job self = {
        .job = {.next = next, .run = run, .done = done, .scratch_bytes = work->scratch_bytes},
        .work = work,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .over = PTHREAD_COND_INITIALIZER};
    srv_executor_submit(executor, &self.job);
    pthread_mutex_lock(&self.lock);
    while (!self.ended)
        pthread_cond_wait(&self.over, &self.lock);
    pthread_mutex_unlock(&self.lock);
    return self.job.status;
}

attn_status bench_crew_run(bench_crew *crew, const bench_work *work)
{
    if (crew->executor)
        return run_on_executor(crew->executor, work);
    attn_status status = ATTN_OK;
    for (int64_t tile = 0; tile < work->tiles && status == ATTN_OK; tile++) {
        attn_arena arena;
        attn_arena_init(&arena, crew->scratch, crew->scratch_bytes);
        status = work->run(work->context, tile, &arena);
    }
    return status;
}
