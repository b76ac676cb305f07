/* Each round begins with sgemm on as many workers, so that what a task is held against ran next to
 * it. */
#include "tests/bench/support/rounds.h"

#include "server/bench/targets.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    DENORMAL_N = 4096,
    DENORMAL_HEADS = 2,
    LONG_N = 16384, /* where the variants are held against exact */
    PADDED_BATCH = 3,
    K = 256, /* of Linformer, and Performer's features */
};

static const int64_t round_sizes[] = {512, BENCH_ERRORS_N, 2048, 4096};
static const int64_t padded_lengths[PADDED_BATCH] = {1024, 700, 333};
static const double most_denormal_slowdown = 1.5;

static void add_line(bench_rounds *b, const bench_line *line)
{
    b->lines[b->line_count++] = *line;
}

static srv_bench_task *add_task(bench_rounds *b, const attn_machine *machine, const char *backend,
                                const attn_shape *shape, const attn_mix_params *params, int workers)
{
    srv_bench_task *task = &b->tasks[b->task_count++];
    attn_error error = {0};
    if (srv_bench_attend_task(task, &b->pool, attn_mixer_find(backend), machine, shape, params,
                              workers, &error) != ATTN_OK) {
        printf("cannot measure %s: %s\n", backend, error.message);
        exit(EXIT_FAILURE);
    }
    return task;
}

/* Lines for the targets that the task has. */
static void add_targets(bench_rounds *b, const srv_bench_task *task, const srv_bench_task *exact)
{
    const srv_bench_target *target = srv_bench_target_find(&task->plan, SRV_BENCH_SGEMM);
    if (target)
        add_line(b, &(bench_line){.of = task,
                                  .to = b->sgemm[task->workers - 1],
                                  .floor = target->floor,
                                  .goal = target->goal});
    target = exact ? srv_bench_target_find(&task->plan, SRV_BENCH_EXACT) : NULL;
    if (target)
        add_line(b, &(bench_line){.of = task,
                                  .to = exact,
                                  .by_time = true,
                                  .floor = target->floor,
                                  .goal = target->goal});
}

static const srv_bench_task *add_exact(bench_rounds *b, const attn_machine *machine,
                                       const attn_shape *shape, const attn_mask *mask, int workers)
{
    attn_mix_params params;
    attn_mix_params_init(&params, shape->d);
    params.mask = *mask;
    const srv_bench_task *task = add_task(b, machine, "exact", shape, &params, workers);
    add_targets(b, task, NULL);
    return task;
}

/* One shape on one worker and, where it is large enough, on two. Returns the former. */
static const srv_bench_task *add_shape(bench_rounds *b, const attn_machine *machine, int64_t n,
                                       int64_t d, bool causal)
{
    const int64_t heads = n >= 2048 ? 2 : 4096 / n;
    const attn_shape shape = {1, heads, heads, n, n, d, d};
    const attn_mask mask = {.causal = causal};
    const srv_bench_task *one = add_exact(b, machine, &shape, &mask, 1);
    if (b->most_workers < 2 || n < 1024)
        return one;
    const srv_bench_task *two = add_exact(b, machine, &shape, &mask, 2);
    if (n >= 2048)
        add_line(b, &(bench_line){.of = two, .to = one, .floor = 1.8, .goal = 1.95});
    return one;
}

static void add_awkward(bench_rounds *b, const attn_machine *machine, const srv_bench_task *d64,
                        const srv_bench_task *d128)
{
    const struct {
        const char *name;
        attn_shape shape;
        const int64_t *lengths;
        const srv_bench_task *nearest;
    } awkward[] = {
        {"n 1000", {1, 4, 4, 1000, 1000, 64, 64}, NULL, d64},
        {"d 80", {1, 4, 4, 1024, 1024, 80, 80}, NULL, d64},
        {"d 96", {1, 4, 4, 1024, 1024, 96, 96}, NULL, d128},
        {"8 heads on 2 of k, v", {1, 8, 2, 1024, 1024, 64, 64}, NULL, d64},
        {"padded batch", {PADDED_BATCH, 4, 4, 1024, 1024, 64, 64}, padded_lengths, d64},
    };
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++) {
        attn_mix_params params;
        attn_mix_params_init(&params, awkward[i].shape.d);
        params.mask.lengths = awkward[i].lengths;
        srv_bench_task *task = add_task(b, machine, "exact", &awkward[i].shape, &params, 1);
        snprintf(task->label, sizeof task->label, "%s exact full, %s", attn_isa_name(machine->isa),
                 awkward[i].name);
        add_line(b,
                 &(bench_line){.of = task, .to = awkward[i].nearest, .floor = 0.85, .goal = 0.95});
    }
}

/* A client may choose numbers that a processor handles by microcode: the same work on normal and on
 * denormal q, k and v. */
static void add_denormal(bench_rounds *b, const attn_machine *machine)
{
    const int64_t n = DENORMAL_N, heads = DENORMAL_HEADS;
    const attn_shape shape = {1, heads, heads, n, n, 64, 64};
    static const char *const backends[] = {"exact", "performer"};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        attn_mix_params params;
        attn_mix_params_init(&params, shape.d);
        params.features = K;
        params.omega = b->pool.omega;
        const srv_bench_task *normal = add_task(b, machine, backends[i], &shape, &params, 1);
        srv_bench_task *task = add_task(b, machine, backends[i], &shape, &params, 1);
        task->io.q.data = task->io.k.data = task->io.v.data = b->denormals;
        snprintf(task->label, sizeof task->label, "%s %s full, denormal q, k, v",
                 attn_isa_name(machine->isa), backends[i]);
        add_line(b, &(bench_line){.of = task,
                                  .to = normal,
                                  .by_time = true,
                                  .floor = 1 / most_denormal_slowdown,
                                  .goal = 1});
    }
}

static void open_round(bench_rounds *b)
{
    for (int c = 0; c < b->most_workers; c++) {
        b->tasks[b->task_count] = srv_bench_sgemm_task(&b->pool, c + 1);
        b->sgemm[c] = &b->tasks[b->task_count++];
    }
}

static void add_round(bench_rounds *b, const attn_machine *machines, int machine_count, int64_t n)
{
    open_round(b);
    for (int i = 0; i < machine_count; i++) {
        const attn_machine *machine = &machines[i];
        const srv_bench_task *d64 = add_shape(b, machine, n, 64, false);
        add_shape(b, machine, n, 64, true);
        const srv_bench_task *d128 = add_shape(b, machine, n, 128, false);
        add_shape(b, machine, n, 128, true);
        if (n == BENCH_ERRORS_N)
            add_awkward(b, machine, d64, d128);
        if (n == DENORMAL_N)
            add_denormal(b, machine);
    }
}

static void add_variants(bench_rounds *b, const attn_machine *machine, int workers)
{
    const attn_shape shape = {1, 1, 1, LONG_N, LONG_N, 64, 64};
    attn_mix_params params;
    attn_mix_params_init(&params, shape.d);
    params.window = 512;
    params.projection = ATTN_GIVEN;
    params.e = params.f = b->pool.e;
    params.projection_heads = 1;
    params.projection_length = LONG_N;
    params.k = params.features = K;
    params.omega = b->pool.omega;
    static const char *const unordered[] = {"linformer", "performer"};
    for (size_t i = 0; i < sizeof unordered / sizeof *unordered; i++)
        add_targets(b, add_task(b, machine, unordered[i], &shape, &params, workers), NULL);
    params.mask.causal = true;
    const srv_bench_task *exact = add_task(b, machine, "exact", &shape, &params, workers);
    add_targets(b, exact, NULL);
    add_targets(b, add_task(b, machine, "window", &shape, &params, workers), exact);
}

/* The best overlay alone, as a user would run it. */
static void add_peer_round(bench_rounds *b, const attn_machine *machine)
{
    const attn_shape shape = {1, BENCH_PEER_HEADS, BENCH_PEER_HEADS, BENCH_PEER_N, BENCH_PEER_N, 64,
                              64};
    open_round(b);
    for (int causal = 0; causal < 2; causal++)
        b->beside_peer[causal] =
            add_exact(b, machine, &shape, &(attn_mask){.causal = causal}, b->most_workers);
}

void bench_rounds_add(bench_rounds *b, const attn_machine *machines, int machine_count)
{
    for (size_t i = 0; i < sizeof round_sizes / sizeof *round_sizes; i++)
        add_round(b, machines, machine_count, round_sizes[i]);
    open_round(b);
    for (int i = 0; i < machine_count; i++)
        add_variants(b, &machines[i], 1);
    add_peer_round(b, &machines[machine_count - 1]);
}

/* The pool's normal numbers times 1e-40, all far below the least normal float; NULL without memory.
 */
static float *make_denormals(const srv_bench_pool *pool)
{
    const size_t count = (size_t)DENORMAL_HEADS * DENORMAL_N * 64;
    float *numbers = aligned_alloc(ATTN_ALIGN, count * sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = pool->q[i] * 1e-40F;
    return numbers;
}

attn_status bench_rounds_open(bench_rounds *b, int cores, attn_error *error)
{
    const size_t square = (size_t)SRV_BENCH_SGEMM_SIDE * SRV_BENCH_SGEMM_SIDE;
    const srv_bench_sizes sizes = {.q = square,
                                   .k = square,
                                   .v = square,
                                   .out = square,
                                   .e = (size_t)K * LONG_N,
                                   .omega = (size_t)K * 64,
                                   .products = BENCH_MOST_WORKERS};
    b->most_workers = cores > 1 ? BENCH_MOST_WORKERS : 1;
    attn_status status = srv_bench_pool_open(&b->pool, &sizes, error);
    b->denormals = status == ATTN_OK ? make_denormals(&b->pool) : NULL;
    return status == ATTN_OK && !b->denormals ? ATTN_NO_MEMORY : status;
}

void bench_rounds_close(bench_rounds *b)
{
    for (int i = 0; i < b->task_count; i++)
        srv_bench_task_close(&b->tasks[i]);
    srv_bench_pool_close(&b->pool);
    free(b->denormals);
}
