/* The scratch memory that workers lend to tiles. */
#include "server/executor.h"

#include "tests/support/probe.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

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
    srv_executor *executor = probe_executor(SCRATCH_MEETING);
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
    srv_executor *executor = probe_executor(1);
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
    srv_executor *executor = probe_executor(2);
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
    srv_executor *executor = probe_executor(1);
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

int main(void)
{
    static const test_case cases[] = {
        {"scratch", test_scratch},
        {"scratch is exact", test_scratch_is_exact},
        {"scratch refused", test_scratch_refused},
        {"scratch is given back", test_scratch_is_given_back},
        {0},
    };
    return test_main("executor_scratch", cases);
}
