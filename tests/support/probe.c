/* Jobs that watch over their own rules, and gates in their tiles. */
#include "tests/support/probe.h"

#include "tests/support/suite.h"

#include <pthread.h>
#include <stdlib.h>

const int worker_counts[WORKER_COUNTS] = {1, 2, 3, 8};

srv_executor *probe_executor(int workers)
{
    attn_error error = {0};
    srv_executor *executor = srv_executor_open(workers, &error);
    CHECK(executor != NULL, "%d workers: %s", workers, error.message);
    if (!executor)
        exit(EXIT_FAILURE);
    return executor;
}

/* Every tile of the current phase ran exactly once. */
static bool phase_complete(probe *p)
{
    for (int64_t tile = 0; p->phase >= 0 && tile < p->tiles[p->phase]; tile++)
        if (p->seen[p->phase][tile] != 1)
            return false;
    return true;
}

static bool probe_next(srv_job *job, attn_phase *phase)
{
    probe *p = (probe *)job;
    if (p->inside++ != 0 || !phase_complete(p))
        p->violations++;
    p->next_calls++;
    if (p->next_hook)
        p->next_hook(p);
    int following = ++p->phase;
    bool more = following < p->phase_count;
    if (more)
        *phase = (attn_phase){.name = "probe", .tiles = p->tiles[following], .tile_ns = p->tile_ns};
    p->inside--;
    return more;
}

static attn_status probe_run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    probe *p = (probe *)job;
    int phase = p->phase;
    p->inside++;
    if (tile < 0 || tile >= p->tiles[phase] || p->seen[phase][tile]++ != 0)
        p->violations++;
    p->tiles_run++;
    attn_status status = p->tile_hook ? p->tile_hook(p, phase, tile, scratch) : ATTN_OK;
    if (p->phase != phase)
        p->violations++;
    p->inside--;
    return status;
}

static void probe_done(srv_job *job)
{
    probe *p = (probe *)job;
    if (p->inside != 0 || p->done_calls++ != 0)
        p->violations++;
    if (p->done_hook)
        p->done_hook(p);
    sem_post(&p->done);
}

probe *probe_new(int phase_count, const int64_t *tiles)
{
    probe *p = calloc(1, sizeof *p);
    if (!p)
        exit(EXIT_FAILURE);
    p->job = (srv_job){.next = probe_next, .run = probe_run, .done = probe_done};
    p->phase_count = phase_count;
    for (int i = 0; i < phase_count; i++)
        p->tiles[i] = tiles[i];
    p->tile_ns = 1;
    p->phase = -1;
    sem_init(&p->done, 0, 0);
    return p;
}

probe *probe_flat(int64_t tiles)
{
    return probe_new(1, &tiles);
}

void probe_await(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        ;
}

void probe_free(probe *p)
{
    CHECK(p->violations == 0, "%d broken rules", p->violations);
    CHECK(p->done_calls == 1, "done was called %d times", p->done_calls);
    CHECK(p->inside == 0, "a callback still runs");
    sem_destroy(&p->done);
    free(p);
}

/* Wait until the job is over, then check how it ended and how many tiles ran. */
void probe_wait(probe *p, attn_status status, int tiles_run)
{
    probe_await(&p->done);
    CHECK(p->job.status == status, "status %s, expected %s", attn_status_name(p->job.status),
          attn_status_name(status));
    CHECK(p->tiles_run == tiles_run, "%d tiles ran, expected %d", p->tiles_run, tiles_run);
    CHECK(p->job.started_ns != 0 || tiles_run == 0, "%d tiles ran, never started", tiles_run);
}

void probe_end(probe *p, attn_status status, int tiles_run)
{
    probe_wait(p, status, tiles_run);
    probe_free(p);
}

/* The tile says that it is there, and waits until it may go on. */
attn_status probe_stop_at_gate(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)tile, (void)scratch;
    sem_post(p->entered);
    probe_await(p->gate);
    return ATTN_OK;
}

void probe_hold(probe_holder *h, srv_executor *executor)
{
    sem_init(&h->entered, 0, 0);
    sem_init(&h->gate, 0, 0);
    h->probe = probe_flat(1);
    h->probe->tile_hook = probe_stop_at_gate;
    h->probe->entered = &h->entered;
    h->probe->gate = &h->gate;
    srv_executor_submit(executor, &h->probe->job);
    probe_await(&h->entered);
}

void probe_release(probe_holder *h)
{
    sem_post(&h->gate);
    probe_end(h->probe, ATTN_OK, 1);
    sem_destroy(&h->entered);
    sem_destroy(&h->gate);
}

attn_status probe_meet(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)tile, (void)scratch;
    pthread_barrier_wait(p->user);
    return ATTN_OK;
}
