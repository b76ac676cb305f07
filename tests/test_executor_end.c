/* How jobs end: done, cancelled, too late, failed, or with the executor; and that many do. */
#include "server/executor.h"

#include "tests/support/probe.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdlib.h>

static void test_cancel_before_start(void)
{
    srv_executor *executor = probe_executor(1);
    probe_holder h;
    probe_hold(&h, executor);
    probe *p = probe_flat(10), *other = probe_flat(10);
    srv_executor_submit(executor, &p->job);
    srv_executor_submit(executor, &other->job);
    srv_executor_cancel(executor, &p->job);
    srv_executor_cancel(executor, &p->job);
    CHECK(p->done_calls == 0, "done ran while the only worker was busy");
    probe_release(&h);
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
        srv_executor *executor = probe_executor(workers);
        sem_t entered, gate;
        sem_init(&entered, 0, 0);
        sem_init(&gate, 0, 0);
        probe *p = probe_new(2, (const int64_t[]){20, 20});
        p->tile_hook = probe_stop_at_gate;
        p->entered = &entered;
        p->gate = &gate;
        srv_executor_submit(executor, &p->job);
        for (int j = 0; j < workers; j++)
            probe_await(&entered);
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
        probe_stop_at_gate(p, 0, 0, NULL);
}

static void test_cancel_between_phases(void)
{
    for (int last = 0; last < 2; last++) { /* `last`: the next() that is cancelled says "over" */
        srv_executor *executor = probe_executor(2);
        sem_t entered, gate;
        sem_init(&entered, 0, 0);
        sem_init(&gate, 0, 0);
        probe *p = probe_new(2 - last, (const int64_t[]){4, 4});
        p->next_hook = next_at_gate;
        p->entered = &entered;
        p->gate = &gate;
        srv_executor_submit(executor, &p->job);
        probe_await(&entered);
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
    srv_executor *executor = probe_executor(3);
    int cancelled = 0;
    for (int round = 0; round < 3000; round++) {
        probe *p = probe_new(2, (const int64_t[]){TILES - 10, 10});
        srv_executor_submit(executor, &p->job);
        for (int spin = 0; spin < 20000 && p->tiles_run < round % (TILES + 2); spin++)
            ;
        srv_executor_cancel(executor, &p->job);
        probe_await(&p->done);
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
    srv_executor *executor = probe_executor(2);
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
    srv_executor *executor = probe_executor(1);
    probe_holder h;
    probe_hold(&h, executor);
    probe *late = probe_flat(3), *early = probe_flat(3);
    late->job.remaining_ns = 1e9;
    late->job.deadline_ns = 1; /* long ago */
    early->job.deadline_ns = INT64_MAX;
    srv_executor_submit(executor, &early->job);
    srv_executor_submit(executor, &late->job);
    probe_release(&h);
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
        srv_executor *executor = probe_executor(1);
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
    srv_executor *executor = probe_executor(1);
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
        probe_await(p->gate);
    else
        sem_post(p->gate);
    return tile == 1 ? ATTN_NON_FINITE : ATTN_INTERNAL;
}

static void test_lowest_failure_wins(void)
{
    for (int round = 0; round < 50; round++) {
        srv_executor *executor = probe_executor(2);
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

static void test_close_with_jobs_in_flight(void)
{
    enum {
        JOBS = 20
    };
    for (int i = 0; i < WORKER_COUNTS; i++) {
        srv_executor *executor = probe_executor(worker_counts[i]);
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
    return phase == 0 ? ATTN_OK : probe_meet(p, phase, tile, scratch);
}

/* Workers that idle while the executor closes stay for the phases still to come. */
static void test_close_keeps_the_workers(void)
{
    for (int i = 0; i < WORKER_COUNTS; i++) {
        int workers = worker_counts[i];
        srv_executor *executor = probe_executor(workers);
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
        srv_executor *executor = probe_executor(worker_counts[i]);
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
        srv_executor *executor = probe_executor(worker_counts[i]);
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
            probe_await(&p[j]->done);
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
        srv_executor *executor = probe_executor(worker_counts[i]);
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

int main(void)
{
    static const test_case cases[] = {
        {"cancel before start", test_cancel_before_start},
        {"cancel while tiles run", test_cancel_while_tiles_run},
        {"cancel between phases", test_cancel_between_phases},
        {"cancel races with the end", test_cancel_races_with_the_end},
        {"cancel after the end", test_cancel_after_the_end},
        {"deadline in the queue", test_deadline_in_the_queue},
        {"deadline between tiles", test_deadline_between_tiles},
        {"failing tile", test_failing_tile},
        {"lowest failure wins", test_lowest_failure_wins},
        {"close with jobs in flight", test_close_with_jobs_in_flight},
        {"close keeps the workers", test_close_keeps_the_workers},
        {"done submits", test_done_submits},
        {"many jobs", test_many_jobs},
        {"many submitters", test_many_submitters},
        {0},
    };
    return test_main("executor_end", cases);
}
