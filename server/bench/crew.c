/* A job whose phases are the work's, as often as there are rounds. */
#include "server/bench/crew.h"

#include "server/clock.h"

#include <pthread.h>

typedef struct bench_job {
    srv_job job; /* first, so that a srv_job is one of these */
    const srv_bench_work *work;
    int phase; /* that runs; -1 before the first */
    int round;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ended;
} bench_job;

static bool next(srv_job *job, attn_phase *phase)
{
    bench_job *self = (bench_job *)job;
    if (++self->phase == self->work->phase_count) {
        self->phase = 0;
        if (++self->round == self->work->rounds)
            return false;
    }
    *phase = self->work->phases[self->phase];
    return true;
}

static attn_status run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    bench_job *self = (bench_job *)job;
    return self->work->run(self->work->context, self->phase, tile, scratch);
}

static void done(srv_job *job)
{
    bench_job *self = (bench_job *)job;
    pthread_mutex_lock(&self->lock);
    self->ended = true;
    pthread_cond_signal(&self->over);
    pthread_mutex_unlock(&self->lock);
}

srv_bench_result srv_bench_run(srv_executor *executor, const srv_bench_work *work)
{
    bench_job self = {
        .job = {.next = next, .run = run, .done = done, .scratch_bytes = work->scratch_bytes},
        .work = work,
        .phase = -1,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .over = PTHREAD_COND_INITIALIZER};
    double start = (double)srv_now_ns();
    srv_executor_submit(executor, &self.job);
    pthread_mutex_lock(&self.lock);
    while (!self.ended)
        pthread_cond_wait(&self.over, &self.lock);
    pthread_mutex_unlock(&self.lock);
    srv_bench_result result = {.status = self.job.status,
                               .ns = ((double)srv_now_ns() - start) / work->rounds,
                               .busy_ns = (double)self.job.busy_ns / work->rounds,
                               .scratch_bytes = self.job.workspace_bytes};
    pthread_cond_destroy(&self.over);
    pthread_mutex_destroy(&self.lock);
    return result;
}
