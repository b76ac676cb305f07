/* The worker threads: counts, every tile once, barriers, the order of jobs, and what they cost. */
#include "server/executor.h"

#include "server/clock.h"
#include "tests/support/probe.h"
#include "tests/support/suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Threads that may still be created before the system "refuses"; negative: no limit. */
static atomic_int threads_allowed = -1;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (threads_allowed >= 0 && threads_allowed-- == 0) {
        threads_allowed = 0;
        return EAGAIN;
    }
    return real(thread, attributes, start, argument);
}

static void test_refuses_bad_counts(void)
{
    const int counts[] = {-1, 0, SRV_MAX_WORKERS + 1, 1 << 30};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        attn_error error = {0};
        srv_executor *executor = srv_executor_open(counts[i], &error);
        CHECK(executor == NULL, "%d workers were opened", counts[i]);
        CHECK(error.status == ATTN_INVALID && error.message[0], "%d workers: status %d", counts[i],
              (int)error.status);
    }
    srv_executor_close(NULL);
}

static void test_thread_refused(void)
{
    for (int allowed = 0; allowed < 4; allowed++) {
        attn_error error = {0};
        threads_allowed = allowed;
        srv_executor *executor = srv_executor_open(4, &error);
        threads_allowed = -1;
        CHECK(executor == NULL, "opened with %d threads of 4", allowed);
        CHECK(error.status == ATTN_NO_MEMORY, "%d threads: status %d", allowed, (int)error.status);
    }
}

static void test_most_workers(void)
{
    srv_executor *executor = probe_executor(SRV_MAX_WORKERS);
    probe *p = probe_flat(MAX_TILES);
    srv_executor_submit(executor, &p->job);
    probe_end(p, ATTN_OK, MAX_TILES);
    srv_executor_close(executor);
}

static void test_every_tile_once(void)
{
    static const int64_t tiles[] = {1, 7, 64, 1, MAX_TILES, 2};
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = probe_executor(worker_counts[i]);
        for (int round = 0; round < 20; round++) {
            probe *p = probe_new(6, tiles);
            srv_executor_submit(executor, &p->job);
            probe_end(p, ATTN_OK, 1 + 7 + 64 + 1 + MAX_TILES + 2);
        }
        srv_executor_close(executor);
    }
}

static void test_no_phases(void)
{
    srv_executor *executor = probe_executor(2);
    probe *p = probe_new(0, NULL);
    srv_executor_submit(executor, &p->job);
    probe_end(p, ATTN_OK, 0);
    srv_executor_close(executor);
}

/* "Parsing" finds out how many tiles the next phase has, that phase what the last one prints. */
static attn_status decide_tile(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)scratch;
    atomic_int *total = p->user;
    if (phase == 0)
        p->tiles[1] = 137;
    if (phase == 1)
        *total += (int)tile;
    return ATTN_OK;
}

static void decide_next(probe *p)
{
    const atomic_int *total = p->user;
    if (p->phase == 1)
        p->tiles[2] = *total % 100; /* 136 * 137 / 2 = 9316 */
}

static void test_next_decides(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = probe_executor(worker_counts[i]);
        atomic_int total = 0;
        probe *p = probe_new(3, (const int64_t[]){1, 0, 0});
        p->tile_hook = decide_tile;
        p->next_hook = decide_next;
        p->user = &total;
        srv_executor_submit(executor, &p->job);
        probe_end(p, ATTN_OK, 1 + 137 + 16);
        srv_executor_close(executor);
    }
}

typedef struct reduction {
    float partial[MAX_TILES], total;
} reduction;

static attn_status reduce_tile(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    enum {
        TERMS = 100
    };
    reduction *r = p->user;
    float *terms = attn_arena_take(scratch, TERMS * sizeof *terms);
    if (!terms)
        return ATTN_NO_MEMORY;
    if (phase == 0) {
        for (int i = 0; i < TERMS; i++)
            terms[i] = 1.0F / (float)(tile * TERMS + i + 1);
        for (int i = 0; i < TERMS; i++)
            r->partial[tile] += terms[i];
    } else {
        for (int i = 0; i < MAX_TILES; i++)
            r->total += r->partial[i];
    }
    return ATTN_OK;
}

static void test_same_bits(void)
{
    reduction first;
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = probe_executor(worker_counts[i]);
        reduction r = {0};
        probe *p = probe_new(2, (const int64_t[]){MAX_TILES, 1});
        p->tile_hook = reduce_tile;
        p->user = &r;
        p->job.scratch_bytes = 400;
        srv_executor_submit(executor, &p->job);
        probe_end(p, ATTN_OK, MAX_TILES + 1);
        srv_executor_close(executor);
        if (i == 0)
            first = r;
        CHECK(memcmp(&first, &r, sizeof r) == 0, "%d workers: %.9g, one worker: %.9g",
              worker_counts[i], (double)r.total, (double)first.total);
    }
    CHECK(first.total > 11.4F && first.total < 11.5F, "H(51200) = %g", (double)first.total);
}

/* Tiles that wait for each other end only if every worker is woken for its share. */
static void test_all_workers_wake(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        int workers = worker_counts[i];
        srv_executor *executor = probe_executor(workers);
        pthread_barrier_t together;
        pthread_barrier_init(&together, NULL, (unsigned)workers);
        for (int round = 0; round < 100; round++) {
            probe *p = probe_new(3, (const int64_t[]){workers, workers, workers});
            p->tile_hook = probe_meet;
            p->user = &together;
            srv_executor_submit(executor, &p->job);
            probe_end(p, ATTN_OK, 3 * workers);
        }
        for (int round = 0; round < 100; round++) { /* the same from jobs of one tile */
            probe *p[8];
            for (int j = 0; j < workers; j++) {
                p[j] = probe_flat(1);
                p[j]->tile_hook = probe_meet;
                p[j]->user = &together;
                srv_executor_submit(executor, &p[j]->job);
            }
            for (int j = 0; j < workers; j++)
                probe_end(p[j], ATTN_OK, 1);
        }
        pthread_barrier_destroy(&together);
        srv_executor_close(executor);
    }
}

typedef struct order {
    atomic_int count;
    probe *ended[16];
} order;

static void note_end(probe *p)
{
    order *o = p->user;
    o->ended[o->count++] = p;
}

static void test_shortest_first(void)
{
    srv_executor *executor = probe_executor(1);
    order o = {0};
    probe_holder h;
    probe_hold(&h, executor);
    const double lengths[] = {300, 20, 100, 1};
    probe *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = probe_new(2, (const int64_t[]){3, 2});
        p[i]->tile_ns = lengths[i];
        p[i]->job.remaining_ns = 5 * lengths[i];
        p[i]->done_hook = note_end;
        p[i]->user = &o;
        srv_executor_submit(executor, &p[i]->job);
    }
    probe_release(&h);
    for (int i = 0; i < 4; i++)
        probe_await(&p[i]->done);
    CHECK(o.ended[0] == p[3] && o.ended[1] == p[1] && o.ended[2] == p[2] && o.ended[3] == p[0],
          "the shortest did not end first");
    for (int i = 0; i < 4; i++)
        probe_free(p[i]);
    srv_executor_close(executor);
}

/* As long as the long job is not over, every short one that ends submits the next. */
typedef struct stream {
    srv_executor *executor;
    probe *longest;
    sem_t dry;
    atomic_int shorts;
} stream;

static bool stream_next(srv_job *job, attn_phase *phase)
{
    bool more = job->scratch_bytes++ == 0; /* the field counts calls; no tile uses scratch */
    *phase = (attn_phase){.name = "short", .tiles = 1};
    return more;
}

static attn_status stream_run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    (void)job, (void)tile, (void)scratch;
    return ATTN_OK;
}

typedef struct drop {
    srv_job job;
    stream *from;
} drop;

static void stream_done(srv_job *job)
{
    stream *s = ((drop *)job)->from;
    s->shorts++;
    if (s->longest->done_calls) {
        sem_post(&s->dry);
        return;
    }
    job->scratch_bytes = 0;
    srv_executor_submit(s->executor, job);
}

/* Two streams of short jobs on one worker: one of them always has something to do, yet the long
 * job gets every sixteenth pick. A short job takes two picks, one for next() and one for its tile,
 * and the long job one pick a tile and one for its first next(). */
static void test_long_job_is_not_starved(void)
{
    enum {
        LONG_TILES = 50,
        STREAMS = 2
    };
    stream s = {.executor = probe_executor(1), .longest = probe_flat(LONG_TILES)};
    drop drops[STREAMS];
    probe_holder h;
    sem_init(&s.dry, 0, 0);
    probe_hold(&h, s.executor);
    s.longest->tile_ns = 1e9;
    s.longest->job.remaining_ns = 1e12;
    srv_executor_submit(s.executor, &s.longest->job);
    for (int i = 0; i < STREAMS; i++) {
        drops[i].job = (srv_job){.next = stream_next, .run = stream_run, .done = stream_done};
        drops[i].from = &s;
        srv_executor_submit(s.executor, &drops[i].job);
    }
    probe_release(&h);
    for (int i = 0; i < STREAMS; i++)
        probe_await(&s.dry);
    probe_end(s.longest, ATTN_OK, LONG_TILES);
    int expected = 15 * (LONG_TILES + 1) / 2;
    CHECK(abs(s.shorts - expected) <= STREAMS + 1, "%d short jobs ended, expected %d", s.shorts,
          expected);
    sem_destroy(&s.dry);
    srv_executor_close(s.executor);
}

/* As many background jobs as may run stop inside a tile, more wait behind them; another job is
 * done meanwhile, since a worker was left to it. */
static void test_background_leaves_a_worker(void)
{
    enum {
        WORKERS = 3,
        JOBS = 8
    };
    srv_executor *executor = probe_executor(WORKERS);
    sem_t entered, gate;
    probe *background[JOBS];
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    for (int i = 0; i < JOBS; i++) {
        background[i] = probe_flat(5);
        background[i]->job.background = true;
        background[i]->tile_hook = probe_stop_at_gate;
        background[i]->entered = &entered;
        background[i]->gate = &gate;
        srv_executor_submit(executor, &background[i]->job);
    }
    for (int i = 0; i < WORKERS - 1; i++)
        probe_await(&entered);
    for (int i = 0; i < 20; i++) {
        probe *p = probe_new(3, (const int64_t[]){1, 7, 2});
        srv_executor_submit(executor, &p->job);
        probe_end(p, ATTN_OK, 10);
    }
    CHECK(sem_trywait(&entered) != 0, "a background tile took the last worker");
    for (int i = 0; i < JOBS * 5; i++)
        sem_post(&gate);
    for (int i = 0; i < JOBS; i++)
        probe_end(background[i], ATTN_OK, 5);
    srv_executor_close(executor);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

/* With a single worker what comes waits for one background tile, and not for a second. */
static void test_background_yields_between_tiles(void)
{
    srv_executor *executor = probe_executor(1);
    sem_t entered, gate;
    probe *background = probe_flat(3), *p = probe_flat(100);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    background->job.background = true;
    background->tile_hook = probe_stop_at_gate;
    background->entered = &entered;
    background->gate = &gate;
    srv_executor_submit(executor, &background->job);
    probe_await(&entered);
    srv_executor_submit(executor, &p->job);
    sem_post(&gate);
    probe_end(p, ATTN_OK, 100);
    CHECK(background->tiles_run <= 2, "%d background tiles went first", background->tiles_run);
    sem_post(&gate);
    sem_post(&gate);
    probe_end(background, ATTN_OK, 3);
    srv_executor_close(executor);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

static void test_load(void)
{
    srv_executor *executor = probe_executor(1);
    probe_holder h;
    probe_hold(&h, executor);
    probe *p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = probe_flat(2);
        p[i]->job.remaining_ns = 100;
        srv_executor_submit(executor, &p[i]->job);
    }
    srv_load load = srv_executor_load(executor);
    CHECK(load.waiting == 3 && load.active == 1, "%lld waiting, %lld active",
          (long long)load.waiting, (long long)load.active);
    CHECK(load.remaining_ns == 301, "%g ns remain", load.remaining_ns);
    probe_release(&h);
    for (int i = 0; i < 3; i++)
        probe_end(p[i], ATTN_OK, 2);
    load = srv_executor_load(executor);
    CHECK(load.waiting == 0 && load.active == 0 && load.remaining_ns == 0,
          "%lld jobs are left over", (long long)(load.waiting + load.active));
    srv_executor_close(executor);
}

/* Processor time */

enum {
    BURN_NS = 300000,
    BURN_TILES = 40,
};

/* Use this much of the calling thread's processor time. */
static attn_status burn(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    int64_t end_ns = srv_thread_ns() + BURN_NS;
    (void)p, (void)phase, (void)tile, (void)scratch;
    while (srv_thread_ns() < end_ns)
        ;
    return ATTN_OK;
}

/* Be long without working. */
static attn_status doze(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    const struct timespec nap = {.tv_nsec = BURN_NS};
    (void)p, (void)phase, (void)tile, (void)scratch;
    nanosleep(&nap, NULL);
    return ATTN_OK;
}

/* What tiles burn is counted, on however many workers, and waiting is not; each job has its own. */
static void test_busy_time(void)
{
    const int64_t burnt_ns = (int64_t)BURN_TILES * BURN_NS;
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = probe_executor(worker_counts[i]);
        probe *burning = probe_flat(BURN_TILES), *dozing = probe_flat(BURN_TILES);
        burning->tile_hook = burn;
        dozing->tile_hook = doze;
        srv_executor_submit(executor, &burning->job);
        srv_executor_submit(executor, &dozing->job);
        probe_wait(burning, ATTN_OK, BURN_TILES);
        probe_wait(dozing, ATTN_OK, BURN_TILES);
        CHECK(burning->job.busy_ns >= burnt_ns && burning->job.busy_ns < 2 * burnt_ns,
              "%d workers: %lld ns, burnt %lld", worker_counts[i], (long long)burning->job.busy_ns,
              (long long)burnt_ns);
        CHECK(dozing->job.busy_ns > 0 && dozing->job.busy_ns < burnt_ns / 2,
              "%d workers: %lld ns asleep", worker_counts[i], (long long)dozing->job.busy_ns);
        probe_free(burning);
        probe_free(dozing);
        srv_executor_close(executor);
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"refuses bad counts", test_refuses_bad_counts},
        {"thread refused", test_thread_refused},
        {"most workers", test_most_workers},
        {"every tile once", test_every_tile_once},
        {"no phases", test_no_phases},
        {"next decides", test_next_decides},
        {"same bits", test_same_bits},
        {"all workers wake", test_all_workers_wake},
        {"shortest first", test_shortest_first},
        {"long job is not starved", test_long_job_is_not_starved},
        {"background leaves a worker", test_background_leaves_a_worker},
        {"background yields between tiles", test_background_yields_between_tiles},
        {"load", test_load},
        {"busy time", test_busy_time},
        {0},
    };
    return test_main("executor", cases);
}
