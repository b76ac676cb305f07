/* The worker threads: barriers, wake-ups, cancelling, scratch. Gates stand where a sleep would be,
 * so that nothing here depends on how fast the machine is. */
#include "server/clock.h"
#include "server/executor.h"
#include "tests/support/suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    MAX_PHASES = 6,
    MAX_TILES = 512
};

static const int worker_counts[] = {1, 2, 3, 8};
enum {
    WORKER_COUNTS = sizeof worker_counts / sizeof *worker_counts
};

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

static srv_executor *open_executor(int workers)
{
    attn_error error = {0};
    srv_executor *executor = srv_executor_open(workers, &error);
    CHECK(executor != NULL, "%d workers: %s", workers, error.message);
    if (!executor)
        exit(EXIT_FAILURE);
    return executor;
}

/* A job that watches over its own rules. The hooks are optional. */
typedef struct probe {
    srv_job job; /* first: the callbacks get this pointer */
    int phase_count;
    int64_t tiles[MAX_PHASES];
    double tile_ns;
    attn_status (*tile_hook)(struct probe *probe, int phase, int64_t tile, attn_arena *scratch);
    void (*next_hook)(struct probe *probe);
    void (*done_hook)(struct probe *probe);
    void *user;
    sem_t *entered, *gate; /* for hooks that stop at a gate */

    atomic_int phase;  /* running; -1 before the first */
    atomic_int inside; /* callbacks of any kind */
    atomic_int violations, tiles_run, next_calls, done_calls;
    atomic_int seen[MAX_PHASES][MAX_TILES];
    sem_t done;
} probe;

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

static probe *probe_new(int phase_count, const int64_t *tiles)
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

static probe *probe_flat(int64_t tiles)
{
    return probe_new(1, &tiles);
}

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        ;
}

static void probe_free(probe *p)
{
    CHECK(p->violations == 0, "%d broken rules", p->violations);
    CHECK(p->done_calls == 1, "done was called %d times", p->done_calls);
    CHECK(p->inside == 0, "a callback still runs");
    sem_destroy(&p->done);
    free(p);
}

/* Wait until the job is over, then check how it ended and how many tiles ran. */
static void probe_wait(probe *p, attn_status status, int tiles_run)
{
    wait_for(&p->done);
    CHECK(p->job.status == status, "status %s, expected %s", attn_status_name(p->job.status),
          attn_status_name(status));
    CHECK(p->tiles_run == tiles_run, "%d tiles ran, expected %d", p->tiles_run, tiles_run);
    CHECK(p->job.started_ns != 0 || tiles_run == 0, "%d tiles ran, never started", tiles_run);
}

static void probe_end(probe *p, attn_status status, int tiles_run)
{
    probe_wait(p, status, tiles_run);
    probe_free(p);
}

/* The tile says that it is there, and waits until it may go on. */
static attn_status stop_at_gate(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)tile, (void)scratch;
    sem_post(p->entered);
    wait_for(p->gate);
    return ATTN_OK;
}

/* A job whose one tile keeps a worker busy until the gate opens. */
typedef struct holder {
    probe *probe;
    sem_t entered, gate;
} holder;

static void hold_worker(holder *h, srv_executor *executor)
{
    sem_init(&h->entered, 0, 0);
    sem_init(&h->gate, 0, 0);
    h->probe = probe_flat(1);
    h->probe->tile_hook = stop_at_gate;
    h->probe->entered = &h->entered;
    h->probe->gate = &h->gate;
    srv_executor_submit(executor, &h->probe->job);
    wait_for(&h->entered);
}

static void release_worker(holder *h)
{
    sem_post(&h->gate);
    probe_end(h->probe, ATTN_OK, 1);
    sem_destroy(&h->entered);
    sem_destroy(&h->gate);
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
    srv_executor *executor = open_executor(SRV_MAX_WORKERS);
    probe *p = probe_flat(MAX_TILES);
    srv_executor_submit(executor, &p->job);
    probe_end(p, ATTN_OK, MAX_TILES);
    srv_executor_close(executor);
}

static void test_every_tile_once(void)
{
    static const int64_t tiles[] = {1, 7, 64, 1, MAX_TILES, 2};
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = open_executor(worker_counts[i]);
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
    srv_executor *executor = open_executor(2);
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
        srv_executor *executor = open_executor(worker_counts[i]);
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
        srv_executor *executor = open_executor(worker_counts[i]);
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

static attn_status meet(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)tile, (void)scratch;
    pthread_barrier_wait(p->user);
    return ATTN_OK;
}

/* Tiles that wait for each other end only if every worker is woken for its share. */
static void test_all_workers_wake(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        int workers = worker_counts[i];
        srv_executor *executor = open_executor(workers);
        pthread_barrier_t together;
        pthread_barrier_init(&together, NULL, (unsigned)workers);
        for (int round = 0; round < 100; round++) {
            probe *p = probe_new(3, (const int64_t[]){workers, workers, workers});
            p->tile_hook = meet;
            p->user = &together;
            srv_executor_submit(executor, &p->job);
            probe_end(p, ATTN_OK, 3 * workers);
        }
        for (int round = 0; round < 100; round++) { /* the same from jobs of one tile */
            probe *p[8];
            for (int j = 0; j < workers; j++) {
                p[j] = probe_flat(1);
                p[j]->tile_hook = meet;
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
    srv_executor *executor = open_executor(1);
    order o = {0};
    holder h;
    hold_worker(&h, executor);
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
    release_worker(&h);
    for (int i = 0; i < 4; i++)
        wait_for(&p[i]->done);
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
    stream s = {.executor = open_executor(1), .longest = probe_flat(LONG_TILES)};
    drop drops[STREAMS];
    holder h;
    sem_init(&s.dry, 0, 0);
    hold_worker(&h, s.executor);
    s.longest->tile_ns = 1e9;
    s.longest->job.remaining_ns = 1e12;
    srv_executor_submit(s.executor, &s.longest->job);
    for (int i = 0; i < STREAMS; i++) {
        drops[i].job = (srv_job){.next = stream_next, .run = stream_run, .done = stream_done};
        drops[i].from = &s;
        srv_executor_submit(s.executor, &drops[i].job);
    }
    release_worker(&h);
    for (int i = 0; i < STREAMS; i++)
        wait_for(&s.dry);
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
    srv_executor *executor = open_executor(WORKERS);
    sem_t entered, gate;
    probe *background[JOBS];
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    for (int i = 0; i < JOBS; i++) {
        background[i] = probe_flat(5);
        background[i]->job.background = true;
        background[i]->tile_hook = stop_at_gate;
        background[i]->entered = &entered;
        background[i]->gate = &gate;
        srv_executor_submit(executor, &background[i]->job);
    }
    for (int i = 0; i < WORKERS - 1; i++)
        wait_for(&entered);
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
    srv_executor *executor = open_executor(1);
    sem_t entered, gate;
    probe *background = probe_flat(3), *p = probe_flat(100);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    background->job.background = true;
    background->tile_hook = stop_at_gate;
    background->entered = &entered;
    background->gate = &gate;
    srv_executor_submit(executor, &background->job);
    wait_for(&entered);
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

static void test_cancel_before_start(void)
{
    srv_executor *executor = open_executor(1);
    holder h;
    hold_worker(&h, executor);
    probe *p = probe_flat(10), *other = probe_flat(10);
    srv_executor_submit(executor, &p->job);
    srv_executor_submit(executor, &other->job);
    srv_executor_cancel(executor, &p->job);
    srv_executor_cancel(executor, &p->job);
    CHECK(p->done_calls == 0, "done ran while the only worker was busy");
    release_worker(&h);
    probe_wait(p, ATTN_CANCELLED, 0);
    CHECK(p->next_calls == 0, "next was called %d times after the cancel", p->next_calls);
    CHECK(p->job.started_ns == 0, "a job that never ran has started");
    probe_free(p);
    probe_end(other, ATTN_OK, 10);
    srv_executor_close(executor);
}

static void test_cancel_while_tiles_run(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        int workers = worker_counts[i];
        srv_executor *executor = open_executor(workers);
        sem_t entered, gate;
        sem_init(&entered, 0, 0);
        sem_init(&gate, 0, 0);
        probe *p = probe_new(2, (const int64_t[]){20, 20});
        p->tile_hook = stop_at_gate;
        p->entered = &entered;
        p->gate = &gate;
        srv_executor_submit(executor, &p->job);
        for (int j = 0; j < workers; j++)
            wait_for(&entered);
        srv_executor_cancel(executor, &p->job);
        CHECK(p->done_calls == 0, "done before the running tiles ended");
        for (int j = 0; j < workers; j++)
            sem_post(&gate);
        probe_end(p, ATTN_CANCELLED, workers);
        sem_destroy(&entered);
        sem_destroy(&gate);
        srv_executor_close(executor);
    }
}

static void next_at_gate(probe *p)
{
    if (p->phase == 0)
        stop_at_gate(p, 0, 0, NULL);
}

static void test_cancel_between_phases(void)
{
    for (int last = 0; last < 2; last++) { /* `last`: the next() that is cancelled says "over" */
        srv_executor *executor = open_executor(2);
        sem_t entered, gate;
        sem_init(&entered, 0, 0);
        sem_init(&gate, 0, 0);
        probe *p = probe_new(2 - last, (const int64_t[]){4, 4});
        p->next_hook = next_at_gate;
        p->entered = &entered;
        p->gate = &gate;
        srv_executor_submit(executor, &p->job);
        wait_for(&entered);
        srv_executor_cancel(executor, &p->job);
        sem_post(&gate);
        probe_end(p, ATTN_CANCELLED, 4);
        sem_destroy(&entered);
        sem_destroy(&gate);
        srv_executor_close(executor);
    }
}

/* Cancel wherever the job happens to be: it ends once, and as OK only if it was complete. */
static void test_cancel_races_with_the_end(void)
{
    enum {
        TILES = 30
    };
    srv_executor *executor = open_executor(3);
    int cancelled = 0;
    for (int round = 0; round < 3000; round++) {
        probe *p = probe_new(2, (const int64_t[]){TILES - 10, 10});
        srv_executor_submit(executor, &p->job);
        for (int spin = 0; spin < 20000 && p->tiles_run < round % (TILES + 2); spin++)
            ;
        srv_executor_cancel(executor, &p->job);
        wait_for(&p->done);
        CHECK(
            p->job.status == ATTN_CANCELLED || (p->job.status == ATTN_OK && p->tiles_run == TILES),
            "round %d: %s with %d tiles run", round, attn_status_name(p->job.status), p->tiles_run);
        cancelled += p->job.status == ATTN_CANCELLED;
        probe_free(p);
    }
    CHECK(cancelled > 0, "none of the cancels came in time");
    srv_executor_close(executor);
}

static void test_cancel_after_the_end(void)
{
    srv_executor *executor = open_executor(2);
    probe *p = probe_flat(3);
    srv_executor_submit(executor, &p->job);
    probe_wait(p, ATTN_OK, 3);
    srv_executor_cancel(executor, &p->job);
    CHECK(p->job.status == ATTN_OK, "a job that was over is now %s",
          attn_status_name(p->job.status));
    srv_executor_close(executor);
    probe_free(p);
}

static void test_deadline_in_the_queue(void)
{
    srv_executor *executor = open_executor(1);
    holder h;
    hold_worker(&h, executor);
    probe *late = probe_flat(3), *early = probe_flat(3);
    late->job.remaining_ns = 1e9;
    late->job.deadline_ns = 1; /* long ago */
    early->job.deadline_ns = INT64_MAX;
    srv_executor_submit(executor, &early->job);
    srv_executor_submit(executor, &late->job);
    release_worker(&h);
    probe_end(late, ATTN_DEADLINE, 0);
    probe_end(early, ATTN_OK, 3);
    srv_executor_close(executor);
}

/* The only worker moves the deadline into the past: nobody else looks at it meanwhile. */
static attn_status let_deadline_pass(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)scratch;
    if (phase == 1 && tile == 2)
        p->job.deadline_ns = 1;
    return ATTN_OK;
}

static void test_deadline_between_tiles(void)
{
    static const struct {
        int phases;
        int64_t tiles; /* of the second phase */
        attn_status status;
        int tiles_run;
    } table[] = {
        {2, 9, ATTN_DEADLINE, 4 + 3}, /* tiles are left */
        {3, 3, ATTN_DEADLINE, 4 + 3}, /* a phase is left */
        {2, 3, ATTN_OK, 4 + 3},       /* nothing is left: the answer is there */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        srv_executor *executor = open_executor(1);
        probe *p = probe_new(table[i].phases, (const int64_t[]){4, table[i].tiles, 5});
        p->job.deadline_ns = INT64_MAX;
        p->tile_hook = let_deadline_pass;
        srv_executor_submit(executor, &p->job);
        probe_end(p, table[i].status, table[i].tiles_run);
        srv_executor_close(executor);
    }
}

static attn_status fail_fourth(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)p, (void)scratch;
    return phase == 1 && tile == 3 ? ATTN_NON_FINITE : ATTN_OK;
}

static void test_failing_tile(void)
{
    srv_executor *executor = open_executor(1);
    probe *p = probe_new(3, (const int64_t[]){2, 10, 10});
    p->tile_hook = fail_fourth;
    srv_executor_submit(executor, &p->job);
    probe_wait(p, ATTN_NON_FINITE, 2 + 4);
    CHECK(p->next_calls == 2, "next was called %d times", p->next_calls);
    probe_free(p);
    srv_executor_close(executor);
}

/* Tile 1 fails only after tile 2 has failed, and still speaks for the job. */
static attn_status fail_crosswise(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)scratch;
    if (tile == 0)
        return ATTN_OK;
    if (tile == 1)
        wait_for(p->gate);
    else
        sem_post(p->gate);
    return tile == 1 ? ATTN_NON_FINITE : ATTN_INTERNAL;
}

static void test_lowest_failure_wins(void)
{
    for (int round = 0; round < 50; round++) {
        srv_executor *executor = open_executor(2);
        sem_t gate;
        sem_init(&gate, 0, 0);
        probe *p = probe_flat(20);
        p->tile_hook = fail_crosswise;
        p->gate = &gate;
        srv_executor_submit(executor, &p->job);
        probe_end(p, ATTN_NON_FINITE, 3);
        sem_destroy(&gate);
        srv_executor_close(executor);
    }
}

enum {
    SCRATCH = 1 << 20,
    SCRATCH_MEETING = 3
};

/* Take all the scratch in two parts, write it, and find no more. Phase 0 meets, so that every
 * worker takes part. */
static attn_status use_scratch(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    size_t used = phase == 0 ? SCRATCH : 64;
    unsigned char *a = attn_arena_take(scratch, used / 2), *b = attn_arena_take(scratch, used / 2);
    if (!a || !b || (uintptr_t)a % ATTN_ALIGN || (uintptr_t)b % ATTN_ALIGN)
        return ATTN_INTERNAL;
    memset(a, (int)tile, used / 2);
    memset(b, (int)tile, used / 2);
    if (phase == 0) {
        if (attn_arena_take(scratch, 1))
            return ATTN_INTERNAL;
        pthread_barrier_wait(p->user);
    }
    return ATTN_OK;
}

static void test_scratch(void)
{
    srv_executor *executor = open_executor(SCRATCH_MEETING);
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, SCRATCH_MEETING);
    for (int round = 0; round < 20; round++) {
        probe *p = probe_new(2, (const int64_t[]){SCRATCH_MEETING, 50});
        p->job.scratch_bytes = SCRATCH;
        p->tile_hook = use_scratch;
        p->user = &together;
        srv_executor_submit(executor, &p->job);
        probe_wait(p, ATTN_OK, SCRATCH_MEETING + 50);
        CHECK(p->job.workspace_bytes == (size_t)SCRATCH_MEETING * SCRATCH, "measured %zu bytes",
              p->job.workspace_bytes);
        probe_free(p);
    }
    pthread_barrier_destroy(&together);
    srv_executor_close(executor);
}

static attn_status overdraw(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)tile;
    return attn_arena_take(scratch, p->job.scratch_bytes + 1) ? ATTN_INTERNAL : ATTN_OK;
}

/* A tile gets what its job asked for, not what an earlier job left behind. */
static void test_scratch_is_exact(void)
{
    const size_t asked[] = {SCRATCH, 0, 64, 4096, 0};
    srv_executor *executor = open_executor(1);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        probe *p = probe_flat(2);
        p->job.scratch_bytes = asked[i];
        p->tile_hook = overdraw;
        srv_executor_submit(executor, &p->job);
        probe_wait(p, ATTN_OK, 2);
        CHECK(p->job.workspace_bytes == 0, "%zu bytes measured, none used", p->job.workspace_bytes);
        probe_free(p);
    }
    srv_executor_close(executor);
}

static void test_scratch_refused(void)
{
    const size_t asked[] = {SIZE_MAX, SIZE_MAX - ATTN_ALIGN, SIZE_MAX / 2};
    srv_executor *executor = open_executor(2);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        probe *greedy = probe_flat(5), *modest = probe_flat(5);
        greedy->job.scratch_bytes = asked[i];
        modest->job.scratch_bytes = 4096;
        srv_executor_submit(executor, &greedy->job);
        srv_executor_submit(executor, &modest->job);
        probe_end(greedy, ATTN_NO_MEMORY, 0);
        probe_end(modest, ATTN_OK, 5);
    }
    srv_executor_close(executor);
}

static attn_status remember_scratch(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase, (void)tile;
    void **where = p->user;
    *where = attn_arena_take(scratch, p->job.scratch_bytes);
    if (*where)
        memset(*where, 1, p->job.scratch_bytes);
    return *where ? ATTN_OK : ATTN_INTERNAL;
}

/* After a big job an idle worker unmaps its scratch; how soon depends on the machine alone. */
static void test_scratch_is_given_back(void)
{
    srv_executor *executor = open_executor(1);
    void *where = NULL;
    probe *p = probe_flat(1);
    p->job.scratch_bytes = (size_t)32 << 20;
    p->tile_hook = remember_scratch;
    p->user = &where;
    srv_executor_submit(executor, &p->job);
    probe_end(p, ATTN_OK, 1);
    bool mapped = true;
    for (int tries = 0; mapped && tries < 30000; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        mapped = msync(where, 4096, MS_ASYNC) == 0;
    }
    CHECK(!mapped, "an idle worker keeps 32 MiB");
    srv_executor_close(executor);
}

static void test_load(void)
{
    srv_executor *executor = open_executor(1);
    holder h;
    hold_worker(&h, executor);
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
    release_worker(&h);
    for (int i = 0; i < 3; i++)
        probe_end(p[i], ATTN_OK, 2);
    load = srv_executor_load(executor);
    CHECK(load.waiting == 0 && load.active == 0 && load.remaining_ns == 0,
          "%lld jobs are left over", (long long)(load.waiting + load.active));
    srv_executor_close(executor);
}

static void test_close_with_jobs_in_flight(void)
{
    enum {
        JOBS = 20
    };
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = open_executor(worker_counts[i]);
        probe *p[JOBS];
        for (int j = 0; j < JOBS; j++) {
            p[j] = probe_new(2, (const int64_t[]){30, 3});
            srv_executor_submit(executor, &p[j]->job);
        }
        for (int j = 0; j < JOBS; j += 2)
            srv_executor_cancel(executor, &p[j]->job);
        srv_executor_close(executor);
        for (int j = 0; j < JOBS; j++) {
            bool cancelled = p[j]->job.status == ATTN_CANCELLED;
            CHECK(cancelled ? j % 2 == 0 : p[j]->tiles_run == 33, "job %d: %s, %d tiles", j,
                  attn_status_name(p[j]->job.status), p[j]->tiles_run);
            probe_free(p[j]);
        }
    }
}

static attn_status linger_then_meet(probe *p, int phase, int64_t tile, attn_arena *scratch)
{
    for (int i = 0; phase == 0 && i < 200; i++)
        sched_yield();
    return phase == 0 ? ATTN_OK : meet(p, phase, tile, scratch);
}

/* Workers that idle while the executor closes stay for the phases still to come. */
static void test_close_keeps_the_workers(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        int workers = worker_counts[i];
        srv_executor *executor = open_executor(workers);
        pthread_barrier_t together;
        pthread_barrier_init(&together, NULL, (unsigned)workers);
        probe *p = probe_new(2, (const int64_t[]){1, workers});
        p->tile_hook = linger_then_meet;
        p->user = &together;
        srv_executor_submit(executor, &p->job);
        srv_executor_close(executor);
        probe_end(p, ATTN_OK, 1 + workers);
        pthread_barrier_destroy(&together);
    }
}

/* Closing waits for a job that another job's done() submits. */
static void submit_follower(probe *p)
{
    void **pair = p->user;
    srv_executor_submit(pair[0], &((probe *)pair[1])->job);
}

static void test_done_submits(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = open_executor(worker_counts[i]);
        probe *first = probe_flat(4), *second = probe_flat(9);
        void *pair[] = {executor, second};
        first->done_hook = submit_follower;
        first->user = pair;
        srv_executor_submit(executor, &first->job);
        srv_executor_close(executor);
        probe_end(first, ATTN_OK, 4);
        probe_end(second, ATTN_OK, 9);
    }
}

static void test_many_jobs(void)
{
    enum {
        JOBS = 200
    };
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = open_executor(worker_counts[i]);
        probe *p[JOBS];
        for (int j = 0; j < JOBS; j++) {
            p[j] = probe_new(3, (const int64_t[]){1, 1 + j % 40, 2});
            p[j]->tile_ns = (j * 7919) % 101;
            srv_executor_submit(executor, &p[j]->job);
        }
        for (int j = 0; j < JOBS; j++)
            probe_end(p[j], ATTN_OK, 1 + 1 + j % 40 + 2);
        srv_executor_close(executor);
    }
}

/* Submits jobs one after another and several at a time, and cancels every seventh. */
static void *submitter(void *argument)
{
    enum {
        ROUNDS = 60,
        BATCH = 4
    };
    srv_executor *executor = argument;
    intptr_t wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        probe *p[BATCH];
        for (int j = 0; j < BATCH; j++) {
            p[j] = probe_new(2, (const int64_t[]){1 + (round + j) % 9, 1});
            srv_executor_submit(executor, &p[j]->job);
            if ((round + j) % 7 == 0)
                srv_executor_cancel(executor, &p[j]->job);
        }
        for (int j = 0; j < BATCH; j++) {
            wait_for(&p[j]->done);
            bool complete = p[j]->tiles_run == 2 + (round + j) % 9;
            bool cancelled = p[j]->job.status == ATTN_CANCELLED && (round + j) % 7 == 0;
            wrong += p[j]->violations != 0 || p[j]->done_calls != 1;
            wrong += !cancelled && !(p[j]->job.status == ATTN_OK && complete);
            sem_destroy(&p[j]->done);
            free(p[j]);
        }
    }
    return (void *)wrong;
}

static void test_many_submitters(void)
{
    enum {
        SUBMITTERS = 6
    };
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = open_executor(worker_counts[i]);
        pthread_t threads[SUBMITTERS];
        for (int j = 0; j < SUBMITTERS; j++)
            pthread_create(&threads[j], NULL, submitter, executor);
        for (int j = 0; j < SUBMITTERS; j++) {
            void *wrong;
            pthread_join(threads[j], &wrong);
            CHECK(wrong == NULL, "%d workers: submitter %d saw %ld wrong ends", worker_counts[i], j,
                  (long)(intptr_t)wrong);
        }
        srv_executor_close(executor);
    }
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
        srv_executor *executor = open_executor(worker_counts[i]);
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
        {"cancel before start", test_cancel_before_start},
        {"cancel while tiles run", test_cancel_while_tiles_run},
        {"cancel between phases", test_cancel_between_phases},
        {"cancel races with the end", test_cancel_races_with_the_end},
        {"cancel after the end", test_cancel_after_the_end},
        {"deadline in the queue", test_deadline_in_the_queue},
        {"deadline between tiles", test_deadline_between_tiles},
        {"failing tile", test_failing_tile},
        {"lowest failure wins", test_lowest_failure_wins},
        {"scratch", test_scratch},
        {"scratch is exact", test_scratch_is_exact},
        {"scratch refused", test_scratch_refused},
        {"scratch is given back", test_scratch_is_given_back},
        {"load", test_load},
        {"close with jobs in flight", test_close_with_jobs_in_flight},
        {"close keeps the workers", test_close_keeps_the_workers},
        {"done submits", test_done_submits},
        {"many jobs", test_many_jobs},
        {"many submitters", test_many_submitters},
        {"busy time", test_busy_time},
        {0},
    };
    return test_main("executor", cases);
}
