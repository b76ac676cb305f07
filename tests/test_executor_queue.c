/* The order of work, tile by tile, with a clock and workers that are only numbers. */
#include "server/executor_queue.h"
#include "tests/support/suite.h"

#include <string.h>

enum {
    FAR = 1000000000
};

static void add(srv_queue *queue, srv_job *job, double remaining_ns)
{
    *job = (srv_job){.remaining_ns = remaining_ns};
    srv_queue_add(queue, job);
}

/* Take the job past a barrier as the executor does after next(). */
static void begin(srv_job *job, int64_t tiles, double tile_ns, double beyond_ns)
{
    job->remaining_ns = beyond_ns;
    srv_job_begin(job, &(attn_phase){.name = "test", .tiles = tiles, .tile_ns = tile_ns});
}

static void add_begun(srv_queue *queue, srv_job *job, int64_t tiles, double tile_ns)
{
    add(queue, job, 0);
    begin(job, tiles, tile_ns, 0);
}

static void expect(srv_queue *queue, int64_t now_ns, const srv_job *job, int64_t tile)
{
    int64_t got = -2;
    const srv_job *picked = srv_queue_pick(queue, now_ns, &got);
    CHECK(picked == job, "picked %p, expected %p", (const void *)picked, (const void *)job);
    CHECK(!job || got == tile, "tile %lld, expected %lld", (long long)got, (long long)tile);
}

static void test_empty(void)
{
    srv_queue queue = {0};
    expect(&queue, 0, NULL, 0);
    srv_load load = srv_queue_load(&queue);
    CHECK(load.waiting == 0 && load.active == 0 && load.remaining_ns == 0, "an empty queue waits");
}

static void test_one_job_from_start_to_end(void)
{
    srv_queue queue = {0};
    srv_job job;
    add(&queue, &job, 50);
    expect(&queue, 7, &job, SRV_NO_TILE);
    CHECK(job.started_ns == 0, "asking for the first phase is not a tile");
    begin(&job, 2, 10, 0);
    CHECK(!srv_job_at_rest(&job), "two tiles are on offer");
    expect(&queue, 8, &job, 0);
    expect(&queue, 9, &job, 1);
    CHECK(job.started_ns == 8, "started at %lld", (long long)job.started_ns);
    expect(&queue, 9, NULL, 0);
    srv_job_end_tile(&job, 1, ATTN_OK, 0, 64);
    CHECK(!srv_job_at_rest(&job), "tile 0 still runs");
    expect(&queue, 9, NULL, 0);
    srv_job_end_tile(&job, 0, ATTN_OK, 1, 128);
    CHECK(srv_job_at_rest(&job), "both tiles ended");
    CHECK(job.workspace_bytes == 192, "workspace %zu", job.workspace_bytes);
    srv_queue_remove(&queue, &job);
    expect(&queue, 9, NULL, 0);
    srv_job_stop(&job, ATTN_CANCELLED);
    CHECK(job.status == ATTN_OK, "stopping a job that is over changes its status");
}

static void test_nobody_else_while_asking(void)
{
    srv_queue queue = {0};
    srv_job job;
    add(&queue, &job, 0);
    job.progress.asking = true;
    job.deadline_ns = 1;
    expect(&queue, 2, NULL, 0);
    srv_job_stop(&job, ATTN_CANCELLED);
    expect(&queue, 2, NULL, 0);
    job.progress.asking = false;
    expect(&queue, 2, &job, SRV_NO_TILE);
    CHECK(job.status == ATTN_CANCELLED, "status %d", (int)job.status);
}

/* The remaining work counts tiles that have not ended and what lies beyond the phase. */
static void test_least_remaining_first(void)
{
    srv_queue queue = {0};
    srv_job a, b, c;
    add(&queue, &a, 0);
    begin(&a, 4, 10, 60); /* 100 */
    add(&queue, &b, 0);
    begin(&b, 3, 30, 5); /* 95, then 65 once a tile ended */
    add(&queue, &c, 90); /* 90, not begun */
    expect(&queue, 0, &c, SRV_NO_TILE);
    begin(&c, 1, 99, 0);
    expect(&queue, 0, &b, 0);
    srv_job_end_tile(&b, 0, ATTN_OK, 0, 0);
    expect(&queue, 0, &b, 1);
    expect(&queue, 0, &b, 2);
    expect(&queue, 0, &c, 0);
    for (int64_t tile = 0; tile < 4; tile++)
        expect(&queue, 0, &a, tile);
    expect(&queue, 0, NULL, 0);
}

static void test_equals_in_order_of_submission(void)
{
    srv_queue queue = {0};
    srv_job jobs[3];
    for (int i = 0; i < 3; i++)
        add_begun(&queue, &jobs[i], 1, 10);
    for (int i = 0; i < 3; i++)
        expect(&queue, 0, &jobs[i], 0);
}

/* A stream of short jobs that never ends: the long one gets exactly every sixteenth pick. */
static void test_ageing(void)
{
    srv_queue queue = {0};
    srv_job longest, brief;
    add_begun(&queue, &longest, FAR, 1e6);
    add_begun(&queue, &brief, FAR, 1e-9);
    for (int pick = 1; pick <= 20 * (SRV_PASSES_ALLOWED + 1); pick++) {
        int64_t tile;
        const srv_job *picked = srv_queue_pick(&queue, 0, &tile);
        const srv_job *due = pick % (SRV_PASSES_ALLOWED + 1) == 0 ? &longest : &brief;
        CHECK(picked == due, "pick %d went to the %s job", pick,
              picked == &longest ? "long" : "short");
    }
}

/* An oldest job without a tile to hand out does not take the turn from the next oldest. */
static void test_ageing_skips_the_busy(void)
{
    srv_queue queue = {0};
    srv_job busy, longest, brief;
    add_begun(&queue, &busy, 1, 1);
    expect(&queue, 0, &busy, 0);
    add_begun(&queue, &longest, FAR, 1e6);
    add_begun(&queue, &brief, FAR, 1e-9);
    for (int pick = 0; pick < SRV_PASSES_ALLOWED; pick++)
        expect(&queue, 0, &brief, pick);
    expect(&queue, 0, &longest, 0);
    expect(&queue, 0, &brief, SRV_PASSES_ALLOWED);
}

static void test_deadline_in_the_queue(void)
{
    srv_queue queue = {0};
    srv_job begun, fresh;
    add_begun(&queue, &begun, 3, 1);
    add(&queue, &fresh, 1e9);
    fresh.deadline_ns = 100;
    expect(&queue, 99, &begun, 0);
    expect(&queue, 100, &fresh, SRV_NO_TILE); /* although far from the least remaining */
    CHECK(fresh.status == ATTN_DEADLINE, "status %d at the deadline", (int)fresh.status);
    CHECK(fresh.started_ns == 0, "a job that never ran has started");
}

static void test_deadline_between_tiles(void)
{
    srv_queue queue = {0};
    srv_job job;
    add_begun(&queue, &job, 3, 1);
    job.deadline_ns = 100;
    expect(&queue, 98, &job, 0);
    expect(&queue, 99, &job, 1);
    expect(&queue, 100, NULL, 0); /* the end waits for the tiles that run */
    CHECK(job.status == ATTN_DEADLINE, "status %d", (int)job.status);
    srv_job_end_tile(&job, 0, ATTN_INTERNAL, 0, 0);
    CHECK(!srv_job_at_rest(&job), "tile 1 still runs");
    srv_job_end_tile(&job, 1, ATTN_OK, 0, 0);
    CHECK(srv_job_at_rest(&job), "nothing runs");
    CHECK(job.status == ATTN_DEADLINE, "the first reason was lost: %d", (int)job.status);
    expect(&queue, 101, &job, SRV_NO_TILE);
}

static void test_deadline_after_the_last_tile(void)
{
    srv_queue queue = {0};
    srv_job job;
    add_begun(&queue, &job, 1, 1);
    job.deadline_ns = 100;
    expect(&queue, 99, &job, 0);
    expect(&queue, 200, NULL, 0);
    srv_job_end_tile(&job, 0, ATTN_OK, 0, 0);
    CHECK(job.status == ATTN_OK, "work that was done in the end is thrown away");
}

/* Whatever the order in which they end, the lowest failing tile speaks for the job. */
static void test_lowest_failure(void)
{
    for (int order = 0; order < 2; order++) {
        srv_queue queue = {0};
        srv_job job;
        add_begun(&queue, &job, 5, 1);
        for (int64_t tile = 0; tile < 3; tile++)
            expect(&queue, 0, &job, tile);
        srv_job_end_tile(&job, order ? 2 : 1, order ? ATTN_INTERNAL : ATTN_NON_FINITE, 0, 0);
        expect(&queue, 0, NULL, 0);
        srv_job_end_tile(&job, order ? 1 : 2, order ? ATTN_NON_FINITE : ATTN_INTERNAL, 0, 0);
        srv_job_stop(&job, ATTN_CANCELLED);
        srv_job_end_tile(&job, 0, ATTN_OK, 0, 0);
        CHECK(job.status == ATTN_NON_FINITE, "order %d: status %d", order, (int)job.status);
        expect(&queue, 0, &job, SRV_NO_TILE);
    }
}

static void test_cancel_is_not_overruled(void)
{
    srv_queue queue = {0};
    srv_job job;
    add_begun(&queue, &job, 5, 1);
    expect(&queue, 0, &job, 0);
    srv_job_stop(&job, ATTN_CANCELLED);
    srv_job_end_tile(&job, 0, ATTN_INTERNAL, 0, 0);
    CHECK(job.status == ATTN_CANCELLED, "status %d", (int)job.status);
    expect(&queue, 0, &job, SRV_NO_TILE);
}

/* Peaks are a maximum for each worker and a sum over workers. */
static void test_workspace(void)
{
    srv_queue queue = {0};
    srv_job job;
    add_begun(&queue, &job, FAR, 1);
    const struct {
        int worker;
        size_t peak_bytes, sum;
    } tiles[] = {{0, 64, 64},   {0, 64, 64}, {3, 128, 192},
                 {0, 256, 384}, {3, 0, 384}, {SRV_MAX_WORKERS - 1, 64, 448}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        expect(&queue, 0, &job, (int64_t)i);
        srv_job_end_tile(&job, (int64_t)i, ATTN_OK, tiles[i].worker, tiles[i].peak_bytes);
        CHECK(job.workspace_bytes == tiles[i].sum, "after tile %zu: %zu, expected %zu", i,
              job.workspace_bytes, tiles[i].sum);
    }
}

static void test_load(void)
{
    srv_queue queue = {0};
    srv_job a, b, c;
    add(&queue, &a, 1000);
    add(&queue, &b, 10);
    add(&queue, &c, 100);
    expect(&queue, 1, &b, SRV_NO_TILE);
    begin(&b, 2, 3, 1); /* 7 */
    expect(&queue, 1, &b, 0);
    srv_load load = srv_queue_load(&queue);
    CHECK(load.waiting == 2 && load.active == 1, "%lld waiting, %lld active",
          (long long)load.waiting, (long long)load.active);
    CHECK(load.remaining_ns == 1107, "%g ns remain", load.remaining_ns);
    srv_job_end_tile(&b, 0, ATTN_OK, 0, 0);
    CHECK(srv_queue_load(&queue).remaining_ns == 1104, "%g ns remain after a tile",
          srv_queue_load(&queue).remaining_ns);
}

static void add_background(srv_queue *queue, srv_job *job, int64_t tiles, double tile_ns)
{
    add_begun(queue, job, tiles, tile_ns);
    job->background = true;
}

/* Older and shorter, and passed over as often as it takes: all the same it comes last. */
static void test_background_is_last(void)
{
    srv_queue queue = {0};
    srv_job background, job;
    add_background(&queue, &background, 2, 1);
    add_begun(&queue, &job, 3 * SRV_PASSES_ALLOWED, 1000);
    for (int64_t tile = 0; tile < 3 * SRV_PASSES_ALLOWED; tile++)
        expect(&queue, 0, &job, tile);
    expect(&queue, 0, &background, 0);
    expect(&queue, 0, NULL, 0);
    srv_job_end_tile(&background, 0, ATTN_OK, 0, 0);
    for (int64_t tile = 0; tile < 3 * SRV_PASSES_ALLOWED; tile++)
        srv_job_end_tile(&job, tile, ATTN_OK, 1, 0);
    expect(&queue, 0, &job, SRV_NO_TILE);
    srv_queue_remove(&queue, &job);
    expect(&queue, 0, &background, 1);
}

/* Among themselves in order of submission, and never more tiles at once than allowed. */
static void test_background_leaves_workers(void)
{
    srv_queue queue = {.background_most = 2};
    srv_job first, second, third;
    add_background(&queue, &first, 1, 1000);
    add_background(&queue, &second, 4, 1);
    add_background(&queue, &third, 1, 1);
    expect(&queue, 0, &first, 0);
    expect(&queue, 0, &second, 0);
    expect(&queue, 0, NULL, 0);
    srv_job_end_tile(&first, 0, ATTN_OK, 0, 0);
    expect(&queue, 0, &first, SRV_NO_TILE);
    srv_queue_remove(&queue, &first);
    expect(&queue, 0, &second, 1);
    expect(&queue, 0, NULL, 0);
    srv_job_stop(&third, ATTN_CANCELLED);
    expect(&queue, 0, &third, SRV_NO_TILE);
    srv_load load = srv_queue_load(&queue);
    CHECK(load.background == 2 && load.background_ns == load.remaining_ns, "%lld jobs, %g ns",
          (long long)load.background, load.background_ns);
}

/* A barrier takes no tile's place. */
static void test_background_barrier(void)
{
    srv_queue queue = {0};
    srv_job running, resting;
    add_background(&queue, &running, 1, 1);
    expect(&queue, 0, &running, 0);
    add(&queue, &resting, 1);
    resting.background = true;
    expect(&queue, 0, &resting, SRV_NO_TILE);
    begin(&resting, 1, 1, 0);
    expect(&queue, 0, NULL, 0);
}

static void test_remove_anywhere(void)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        srv_queue queue = {0};
        srv_job jobs[4];
        for (int i = 0; i < 3; i++)
            add(&queue, &jobs[i], 1);
        for (int i = 0; i < 3; i++) {
            srv_queue_remove(&queue, &jobs[orders[o][i]]);
            CHECK(srv_queue_load(&queue).waiting == 2 - i, "order %zu: %lld left", o,
                  (long long)srv_queue_load(&queue).waiting);
        }
        add(&queue, &jobs[3], 1);
        expect(&queue, 0, &jobs[3], SRV_NO_TILE);
        CHECK(queue.oldest == &jobs[3] && queue.newest == &jobs[3], "order %zu left a trace", o);
    }
}

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525U + 1013904223U;
    return (*seed >> 8) % below;
}

enum {
    JOBS = 12,
    TILES = 9,
    PHASES = 3,
    SLOTS = 4
};

typedef struct drill {
    unsigned seed;
    srv_queue queue;
    srv_job jobs[JOBS];
    int phase[JOBS], over[JOBS], seen[JOBS][TILES];
    struct {
        srv_job *job;
        int64_t tile;
    } slots[SLOTS]; /* make-believe workers */
} drill;

/* Past a barrier: every tile of the phase was seen once, unless the job was stopped. */
static void drill_advance(drill *d, srv_job *job)
{
    int i = (int)(job - d->jobs);
    for (int64_t tile = 0; job->status == ATTN_OK && tile < job->progress.phase.tiles; tile++)
        CHECK(d->seen[i][tile] == 1, "seed %u: job %d phase %d tile %lld seen %d times", d->seed, i,
              d->phase[i], (long long)tile, d->seen[i][tile]);
    if (job->status != ATTN_OK || d->phase[i] == PHASES) {
        srv_queue_remove(&d->queue, job);
        d->over[i]++;
        return;
    }
    memset(d->seen[i], 0, sizeof d->seen[i]);
    d->phase[i]++;
    begin(job, 1 + draw(&d->seed, TILES), draw(&d->seed, 100), draw(&d->seed, 1000));
}

static void drill_step(drill *d, int64_t now_ns)
{
    unsigned s = draw(&d->seed, SLOTS);
    int64_t tile;
    if (draw(&d->seed, 40) == 0)
        srv_job_stop(&d->jobs[draw(&d->seed, JOBS)], ATTN_CANCELLED);
    if (d->slots[s].job) {
        srv_job *job = d->slots[s].job;
        d->slots[s].job = NULL;
        srv_job_end_tile(job, d->slots[s].tile, draw(&d->seed, 90) ? ATTN_OK : ATTN_INTERNAL,
                         (int)s, 0);
        if (srv_job_at_rest(job))
            drill_advance(d, job);
        return;
    }
    srv_job *job = srv_queue_pick(&d->queue, now_ns, &tile);
    if (job && tile == SRV_NO_TILE) {
        drill_advance(d, job);
    } else if (job) {
        CHECK(job->status == ATTN_OK, "a tile of a job that was stopped");
        d->seen[job - d->jobs][tile]++;
        d->slots[s].job = job;
        d->slots[s].tile = tile;
    }
}

static void test_random_drill(void)
{
    int ended[ATTN_INTERNAL + 1] = {0};
    for (unsigned seed = 1; seed <= 300; seed++) {
        drill d = {.seed = seed};
        for (int i = 0; i < JOBS; i++) {
            add(&d.queue, &d.jobs[i], draw(&d.seed, 1000));
            d.jobs[i].background = draw(&d.seed, 3) == 0;
            d.jobs[i].deadline_ns = draw(&d.seed, 4) ? 0 : 1 + draw(&d.seed, 300);
        }
        int64_t now_ns = 1;
        while (d.queue.oldest && now_ns < 100000)
            drill_step(&d, now_ns++);
        for (int i = 0; i < JOBS; i++) {
            CHECK(d.over[i] == 1, "seed %u: job %d ended %d times", seed, i, d.over[i]);
            ended[d.jobs[i].status]++;
        }
    }
    CHECK(ended[ATTN_OK] && ended[ATTN_CANCELLED] && ended[ATTN_DEADLINE] && ended[ATTN_INTERNAL],
          "the drill missed a way to end: %d ok, %d cancelled, %d late, %d failed", ended[ATTN_OK],
          ended[ATTN_CANCELLED], ended[ATTN_DEADLINE], ended[ATTN_INTERNAL]);
}

int main(void)
{
    static const test_case cases[] = {
        {"empty", test_empty},
        {"one job from start to end", test_one_job_from_start_to_end},
        {"nobody else while asking", test_nobody_else_while_asking},
        {"least remaining first", test_least_remaining_first},
        {"equals in order of submission", test_equals_in_order_of_submission},
        {"ageing", test_ageing},
        {"ageing skips the busy", test_ageing_skips_the_busy},
        {"deadline in the queue", test_deadline_in_the_queue},
        {"deadline between tiles", test_deadline_between_tiles},
        {"deadline after the last tile", test_deadline_after_the_last_tile},
        {"lowest failure", test_lowest_failure},
        {"cancel is not overruled", test_cancel_is_not_overruled},
        {"workspace", test_workspace},
        {"load", test_load},
        {"background is last", test_background_is_last},
        {"background leaves workers", test_background_leaves_workers},
        {"background barrier", test_background_barrier},
        {"remove anywhere", test_remove_anywhere},
        {"random drill", test_random_drill},
        {0},
    };
    return test_main("executor_queue", cases);
}
