/* Every speed that has a target, beside its floor and its goal.
 *
 * Every repetition runs each task once, in rounds of one n that begin with sgemm on as many
 * workers. Ratios are taken within a repetition, so that what slows the machine down for a while
 * slows both sides, and their medians stand beside the floors that must hold and the goals. Misses
 * are marked and never fail: the machine may be busy, so the exit status is always 0.
 *
 * A ratio to sgemm is fair where both use the same instruction set. OpenBLAS picks its kernel by
 * CPU, or by OPENBLAS_CORETYPE where that is set: on a CPU with AVX-512 it runs an AVX-512 kernel
 * by itself and an AVX2 one under OPENBLAS_CORETYPE=Haswell. So the avx512 lines are judged in the
 * former case and the avx2 lines in the latter; the others are printed and marked "unlike". */
#include "attn/blas.h"
#include "server/bench/targets.h"
#include "tests/bench/support/model.h"
#include "tests/bench/support/peer.h"
#include "tests/bench/support/scan.h"
#include "tests/bench/support/table.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_TASKS = 160,
    MOST_WORKERS = 2,
    MACHINES = 2,
    REPETITIONS = 9,
    AWKWARD_N = 1024, /* the round whose shapes the awkward ones are held against */
    DENORMAL_N = 4096,
    DENORMAL_HEADS = 2,
    LONG_N = 16384, /* where the variants are held against exact */
    PADDED_BATCH = 3,
    PEER_N = 2048,
    PEER_HEADS = 8,
    K = 256, /* of Linformer, and Performer's features */
};

static const int64_t round_sizes[] = {512, AWKWARD_N, 2048, 4096};
static const int64_t padded_lengths[PADDED_BATCH] = {1024, 700, 333};
static const double most_denormal_slowdown = 1.5;

typedef struct bench {
    srv_bench_pool pool;
    float *denormals; /* that many q, k or v */
    srv_executor *executors[MOST_WORKERS];
    int crew_count;
    srv_bench_task tasks[MOST_TASKS];
    bench_line lines[MOST_TASKS];
    int task_count, line_count;
    const srv_bench_task *sgemm[MOST_WORKERS]; /* of the round that is being put together */
    const srv_bench_task *beside_peer[2];      /* full, causal */
} bench;

static void add_line(bench *b, const bench_line *line)
{
    b->lines[b->line_count++] = *line;
}

static srv_bench_task *add_task(bench *b, const attn_machine *machine, const char *backend,
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
static void add_targets(bench *b, const srv_bench_task *task, const srv_bench_task *exact)
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

static const srv_bench_task *add_exact(bench *b, const attn_machine *machine,
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
static const srv_bench_task *add_shape(bench *b, const attn_machine *machine, int64_t n, int64_t d,
                                       bool causal)
{
    const int64_t heads = n >= 2048 ? 2 : 4096 / n;
    const attn_shape shape = {1, heads, heads, n, n, d, d};
    const attn_mask mask = {.causal = causal};
    const srv_bench_task *one = add_exact(b, machine, &shape, &mask, 1);
    if (b->crew_count < 2 || n < 1024)
        return one;
    const srv_bench_task *two = add_exact(b, machine, &shape, &mask, 2);
    if (n >= 2048)
        add_line(b, &(bench_line){.of = two, .to = one, .floor = 1.8, .goal = 1.95});
    return one;
}

static void add_awkward(bench *b, const attn_machine *machine, const srv_bench_task *d64,
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
static void add_denormal(bench *b, const attn_machine *machine)
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

static void open_round(bench *b)
{
    for (int c = 0; c < b->crew_count; c++) {
        b->tasks[b->task_count] = srv_bench_sgemm_task(&b->pool, c + 1);
        b->sgemm[c] = &b->tasks[b->task_count++];
    }
}

static void add_round(bench *b, const attn_machine *machines, int machine_count, int64_t n)
{
    open_round(b);
    for (int i = 0; i < machine_count; i++) {
        const attn_machine *machine = &machines[i];
        const srv_bench_task *d64 = add_shape(b, machine, n, 64, false);
        add_shape(b, machine, n, 64, true);
        const srv_bench_task *d128 = add_shape(b, machine, n, 128, false);
        add_shape(b, machine, n, 128, true);
        if (n == AWKWARD_N)
            add_awkward(b, machine, d64, d128);
        if (n == DENORMAL_N)
            add_denormal(b, machine);
    }
}

static void add_variants(bench *b, const attn_machine *machine, int workers)
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
static void add_peer_round(bench *b, const attn_machine *machine)
{
    const attn_shape shape = {1, PEER_HEADS, PEER_HEADS, PEER_N, PEER_N, 64, 64};
    open_round(b);
    for (int causal = 0; causal < 2; causal++)
        b->beside_peer[causal] =
            add_exact(b, machine, &shape, &(attn_mask){.causal = causal}, b->crew_count);
}

/* The overlays of this CPU; returns how many. */
static int probe_machines(attn_machine machines[MACHINES])
{
    int count = 0;
    for (attn_isa isa = ATTN_ISA_AVX2; isa < ATTN_ISA_COUNT; isa++) {
        attn_error error = {0};
        if (attn_machine_probe(&machines[count], attn_isa_name(isa), &error) == ATTN_OK)
            count++;
        else
            printf("SKIP %s: %s\n", attn_isa_name(isa), error.message);
    }
    return count;
}

static void time_everything(bench *b)
{
    /* Once unrecorded: pages, clocks and OpenBLAS's buffers warm up. */
    for (int repetition = 0; repetition <= REPETITIONS; repetition++) {
        fprintf(stderr, "make bench: repetition %d of %d\n", repetition, REPETITIONS);
        for (int i = 0; i < b->task_count; i++) {
            srv_bench_task *task = &b->tasks[i];
            srv_bench_task_run(task, b->executors[task->workers - 1], repetition > 0);
        }
    }
}

/* Two sgemms that are not much faster together than one after the other say that there was no
 * second core to be had, whatever the number of cores. */
static void print_sgemm(const bench *b)
{
    const srv_bench_task *one = &b->tasks[0], *two = b->crew_count > 1 ? &b->tasks[1] : one;
    bench_print_task(one, "in the first round");
    if (two == one) {
        printf("SKIP two workers: there is one core\n");
        return;
    }
    bench_print_task(two, "in the first round");
    double ratio = srv_bench_ratio(&two->rate, &one->rate);
    if (ratio < 1.8)
        printf("note: two sgemms at a time are %.2f times as fast as one: the machine is not idle, "
               "or its\nscheduler keeps both workers on one core; lines with 2 workers tell "
               "little\n",
               ratio);
}

static void print_errors(bench *b)
{
    bench_print_errors_head();
    for (int i = 0; i < b->task_count; i++) {
        srv_bench_task *task = &b->tasks[i];
        const attn_shape *s = &task->plan.shape;
        bool simple = s->heads == s->kv_heads && !task->plan.params.mask.lengths;
        if (task->plan.mixer && simple && s->n == AWKWARD_N && task->workers == 1 &&
            srv_bench_task_run(task, b->executors[0], false) == ATTN_OK)
            bench_print_error(task);
    }
}

static void print_peer(const bench *b)
{
    const struct {
        const char *name;
        double floor, goal;
    } rows[] = {{"full", 1.3, 1.6}, {"causal", 2.5, 3.7}};
    bench_peer peer = {0};
    if (!bench_peer_torch(&peer, b->crew_count, PEER_HEADS, PEER_N, 64, REPETITIONS)) {
        printf("\nSKIP PyTorch: absent; ATTND_BENCH_PYTHON names a Python that has torch\n");
        return;
    }
    printf("\n%s, %d threads, n %d d 64 heads %d, just after: times as fast as that\n", peer.name,
           b->crew_count, PEER_N, PEER_HEADS);
    for (int causal = 0; causal < 2; causal++) {
        double theirs = causal ? peer.causal_ms : peer.full_ms;
        double ours = srv_bench_summarize(&b->beside_peer[causal]->ns).median / 1e6;
        printf("%-46s %7.2f ms, theirs %8.2f ms: %6.2f  %5.2f  %5.2f  %s\n",
               b->beside_peer[causal]->label, ours, theirs, theirs / ours, rows[causal].floor,
               rows[causal].goal, theirs / ours >= rows[causal].floor ? "ok" : "MISSED");
    }
}

static void run(bench *b, const attn_machine *machines, int machine_count)
{
    for (size_t i = 0; i < sizeof round_sizes / sizeof *round_sizes; i++)
        add_round(b, machines, machine_count, round_sizes[i]);
    open_round(b);
    for (int i = 0; i < machine_count; i++)
        add_variants(b, &machines[i], 1);
    add_peer_round(b, &machines[machine_count - 1]);
    time_everything(b);
    bench_print_head(REPETITIONS);
    for (int i = 0; i < b->line_count; i++)
        bench_print_line(&b->lines[i]);
    print_sgemm(b);
    print_errors(b);
    bench_scan_head(REPETITIONS);
    for (int i = 0; i < machine_count; i++)
        bench_scan_print(&machines[i], REPETITIONS);
    for (int i = 0; i < machine_count; i++)
        bench_models_print(&machines[i], &b->pool, b->executors, b->crew_count, REPETITIONS);
    print_peer(b);
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

static attn_status open_bench(bench *b, int cores, attn_error *error)
{
    const size_t square = (size_t)SRV_BENCH_SGEMM_SIDE * SRV_BENCH_SGEMM_SIDE;
    const srv_bench_sizes sizes = {.q = square,
                                   .k = square,
                                   .v = square,
                                   .out = square,
                                   .e = (size_t)K * LONG_N,
                                   .omega = (size_t)K * 64,
                                   .products = MOST_WORKERS};
    b->crew_count = cores > 1 ? 2 : 1;
    for (int c = 0; c < b->crew_count; c++) {
        b->executors[c] = srv_executor_open(c + 1, error);
        if (!b->executors[c])
            return error->status;
    }
    attn_status status = srv_bench_pool_open(&b->pool, &sizes, error);
    b->denormals = status == ATTN_OK ? make_denormals(&b->pool) : NULL;
    return status == ATTN_OK && !b->denormals ? ATTN_NO_MEMORY : status;
}

static void close_bench(bench *b)
{
    for (int i = 0; i < b->task_count; i++)
        srv_bench_task_close(&b->tasks[i]);
    for (int c = 0; c < MOST_WORKERS; c++)
        srv_executor_close(b->executors[c]);
    srv_bench_pool_close(&b->pool);
    free(b->denormals);
    free(b);
}

int main(void)
{
    attn_blas_init();
    attn_machine machines[MACHINES];
    int machine_count = probe_machines(machines);
    bench *b = calloc(1, sizeof *b);
    attn_error error = {0};
    if (!b || machine_count == 0 || open_bench(b, machines[0].cores, &error) != ATTN_OK)
        printf("SKIP: no overlay to measure, or no memory. %s\n", error.message);
    else
        run(b, machines, machine_count);
    if (b)
        close_bench(b);
    return EXIT_SUCCESS;
}
