/* The worker threads, and the scratch memory each of them owns.
 *
 * One mutex guards the queue and is never held while a callback runs, nor while memory is mapped.
 * The worker that ends the last tile of a phase asks for the next one: nobody else looks at the job
 * meanwhile, so next() needs no lock of its own.
 *
 * Each worker sleeps on a condition variable of its own, and whoever makes work wakes as many as it
 * makes tiles for, the one that slept shortest first. So a phase of one tile wakes nobody in vain,
 * memory that went cold stays cold, and no signal is lost: glibc before 2.41 can lose one when
 * several threads wait on the same variable (its bug 25847). */
#include "server/executor.h"

#include "attn/blas.h"
#include "server/clock.h"
#include "server/executor_queue.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Scratch that an idle worker may keep. */
#define SCRATCH_KEPT_BYTES ((size_t)4 << 20)

enum {
    BRIEF_NS = 20000 /* a tile too short to be worth a system call */
};

typedef struct worker {
    srv_executor *executor;
    int index;
    pthread_t thread;
    pthread_cond_t wake;
    struct worker *next_idle;
    bool idle;
    int64_t thread_ns; /* srv_thread_ns when it was last asked */
    void *scratch;     /* mapped, so that giving it back really lowers the process's memory */
    size_t scratch_bytes;
} worker;

struct srv_executor {
    pthread_mutex_t lock; /* guards everything below, and every job's progress and status */
    pthread_cond_t warmed;
    srv_queue queue;
    worker *idle; /* a stack */
    int warm_count;
    bool closing;
    int worker_count;
    worker workers[];
};

/* Processor time of a tile that was picked at `from_ns` and has just ended. The thread's own clock
 * is a system call: what was over before it could have paid was hardly interrupted. That clock also
 * counts what the worker did since it was last asked, but never waiting, and the other one counts
 * waiting: the truth is below both. */
static int64_t busy_since(worker *self, int64_t from_ns)
{
    int64_t wall_ns = srv_now_ns() - from_ns;
    if (wall_ns < BRIEF_NS)
        return wall_ns;
    int64_t before_ns = self->thread_ns;
    self->thread_ns = srv_thread_ns();
    int64_t thread_ns = self->thread_ns - before_ns;
    return thread_ns < wall_ns ? thread_ns : wall_ns;
}

/* Lock held: wake up to `count` idle workers. */
static void wake(srv_executor *executor, int64_t count)
{
    for (worker *w = executor->idle; w && count > 0; w = executor->idle, count--) {
        executor->idle = w->next_idle;
        w->idle = false;
        pthread_cond_signal(&w->wake);
    }
}

/* Lock held: sleep until woken. */
static void sleep_idle(worker *self)
{
    self->idle = true;
    self->next_idle = self->executor->idle;
    self->executor->idle = self;
    while (self->idle)
        pthread_cond_wait(&self->wake, &self->executor->lock);
}

static void scratch_release(worker *self)
{
    if (self->scratch)
        munmap(self->scratch, self->scratch_bytes);
    self->scratch = NULL;
    self->scratch_bytes = 0;
}

static bool scratch_reserve(worker *self, size_t bytes)
{
    if (bytes <= self->scratch_bytes)
        return true;
    scratch_release(self);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    self->scratch = memory;
    self->scratch_bytes = bytes;
    return true;
}

/* No lock held. The arena has the size the job asked for even when the worker has more, so that a
 * plan which promised too little fails always and not only sometimes. */
static attn_status run_tile(worker *self, srv_job *job, int64_t tile, size_t *peak_bytes)
{
    size_t bytes = attn_arena_round(job->scratch_bytes);
    *peak_bytes = 0;
    if (bytes < job->scratch_bytes || !scratch_reserve(self, bytes))
        return ATTN_NO_MEMORY;
    attn_arena scratch;
    attn_arena_init(&scratch, self->scratch, bytes);
    attn_status status = job->run(job, tile, &scratch);
    *peak_bytes = scratch.peak;
    return status;
}

/* Lock held, and released around done(), after which the job may be gone. */
static void end_job(srv_executor *executor, srv_job *job)
{
    srv_queue_remove(&executor->queue, job);
    if (executor->closing && !executor->queue.oldest)
        wake(executor, executor->worker_count);
    pthread_mutex_unlock(&executor->lock);
    job->done(job);
    pthread_mutex_lock(&executor->lock);
}

/* Lock held, and released around the callbacks: take a job at rest past its barrier. */
static void advance(srv_executor *executor, srv_job *job)
{
    attn_phase phase = {0};
    bool more = false;
    if (job->status == ATTN_OK) {
        job->progress.asking = true;
        pthread_mutex_unlock(&executor->lock);
        more = job->next(job, &phase);
        pthread_mutex_lock(&executor->lock);
        job->progress.asking = false;
    }
    if (!more || job->status != ATTN_OK) {
        end_job(executor, job);
        return;
    }
    srv_job_begin(job, &phase);
    wake(executor, phase.tiles - 1); /* the caller itself is about to pick */
}

/* Lock held, and released while the tile runs, which was picked at `now_ns`. */
static void step(worker *self, srv_job *job, int64_t tile, int64_t now_ns)
{
    srv_executor *executor = self->executor;
    if (tile != SRV_NO_TILE) {
        size_t peak_bytes;
        pthread_mutex_unlock(&executor->lock);
        attn_status status = run_tile(self, job, tile, &peak_bytes);
        int64_t busy_ns = busy_since(self, now_ns);
        /* Linux, from 6.6 on, lets a thread that was woken wait for the next tick, 4 ms away,
         * while another computes. */
        if (job->yields)
            sched_yield();
        pthread_mutex_lock(&executor->lock);
        job->busy_ns += busy_ns;
        srv_job_end_tile(job, tile, status, self->index, peak_bytes);
    }
    if (srv_job_at_rest(job))
        advance(executor, job);
}

/* Lock held: nothing to do. False when there never will be. */
static bool rest(worker *self)
{
    srv_executor *executor = self->executor;
    if (self->scratch_bytes > SCRATCH_KEPT_BYTES) {
        pthread_mutex_unlock(&executor->lock);
        scratch_release(self);
        pthread_mutex_lock(&executor->lock);
        return true;
    }
    if (executor->closing && !executor->queue.oldest)
        return false;
    sleep_idle(self);
    return true;
}

static void *work(void *argument)
{
    worker *self = argument;
    srv_executor *executor = self->executor;
    attn_blas_warm();
    self->thread_ns = srv_thread_ns();
    pthread_mutex_lock(&executor->lock);
    executor->warm_count++;
    pthread_cond_signal(&executor->warmed);
    for (bool open = true; open;) {
        int64_t tile, now_ns = srv_now_ns();
        srv_job *job = srv_queue_pick(&executor->queue, now_ns, &tile);
        if (job)
            step(self, job, tile, now_ns);
        else
            open = rest(self);
    }
    pthread_mutex_unlock(&executor->lock);
    scratch_release(self);
    return NULL;
}

/* With a worker for every CPU each keeps to its own: schedulers that pack threads to save power
 * were seen to run two workers on one CPU for seconds. With fewer, the system chooses better. */
static void spread(const srv_executor *executor)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) != executor->worker_count)
        return;
    size_t cpu = 0;
    for (int i = 0; i < executor->worker_count; i++, cpu++) {
        while (!CPU_ISSET(cpu, &allowed))
            cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(executor->workers[i].thread, sizeof one, &one);
    }
}

/* Workers block every signal, so that those meant for the process reach the loop thread. */
static bool start(srv_executor *executor, int count)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (executor->worker_count < count) {
        worker *w = &executor->workers[executor->worker_count];
        *w = (worker){.executor = executor, .index = executor->worker_count};
        pthread_cond_init(&w->wake, NULL);
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            pthread_cond_destroy(&w->wake);
            break;
        }
        pthread_setname_np(w->thread, "attnd-worker");
        executor->worker_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    spread(executor);
    return executor->worker_count == count;
}

srv_executor *srv_executor_open(int workers, attn_error *error)
{
    if (workers < 1 || workers > SRV_MAX_WORKERS) {
        attn_error_set(
            error, ATTN_INVALID, "workers",
            "%d workers asked for; the executor runs 1 to %d, as many as OpenBLAS safely "
            "has buffers for",
            workers, SRV_MAX_WORKERS);
        return NULL;
    }
    srv_executor *executor = calloc(1, sizeof *executor + (size_t)workers * sizeof(worker));
    if (!executor) {
        attn_error_set(error, ATTN_NO_MEMORY, "workers", "no memory for %d workers", workers);
        return NULL;
    }
    executor->queue.background_most = srv_executor_background_workers(workers);
    pthread_mutex_init(&executor->lock, NULL);
    pthread_cond_init(&executor->warmed, NULL);
    if (!start(executor, workers)) {
        attn_error_set(error, ATTN_NO_MEMORY, "workers",
                       "the system started %d of %d worker threads and refused the next; ask for "
                       "fewer, or raise the limit on tasks",
                       executor->worker_count, workers);
        srv_executor_close(executor);
        return NULL;
    }
    pthread_mutex_lock(&executor->lock);
    while (executor->warm_count < workers)
        pthread_cond_wait(&executor->warmed, &executor->lock);
    pthread_mutex_unlock(&executor->lock);
    return executor;
}

void srv_executor_close(srv_executor *executor)
{
    if (!executor)
        return;
    pthread_mutex_lock(&executor->lock);
    executor->closing = true;
    wake(executor, executor->worker_count);
    pthread_mutex_unlock(&executor->lock);
    for (int i = 0; i < executor->worker_count; i++) {
        pthread_join(executor->workers[i].thread, NULL);
        pthread_cond_destroy(&executor->workers[i].wake);
    }
    pthread_cond_destroy(&executor->warmed);
    pthread_mutex_destroy(&executor->lock);
    free(executor);
}

void srv_executor_submit(srv_executor *executor, srv_job *job)
{
    pthread_mutex_lock(&executor->lock);
    srv_queue_add(&executor->queue, job);
    wake(executor, 1);
    pthread_mutex_unlock(&executor->lock);
}

void srv_executor_cancel(srv_executor *executor, srv_job *job)
{
    pthread_mutex_lock(&executor->lock);
    srv_job_stop(job, ATTN_CANCELLED);
    pthread_mutex_unlock(&executor->lock);
}

int64_t srv_executor_background_workers(int64_t workers)
{
    return workers > 1 ? workers - 1 : 1;
}

srv_load srv_executor_load(srv_executor *executor)
{
    pthread_mutex_lock(&executor->lock);
    srv_load load = srv_queue_load(&executor->queue);
    pthread_mutex_unlock(&executor->lock);
    return load;
}
