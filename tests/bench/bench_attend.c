/* How fast exact attention is beside OpenBLAS's sgemm of 2048, and how exact.
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
#include "tests/bench/support/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_TASKS = 128,
    AWKWARD_N = 1024, /* the round whose shapes the awkward ones are held against */
    PADDED_BATCH = 3,
    MACHINES = 2,
};

static const int64_t round_sizes[] = {512, AWKWARD_N, 2048, 4096};
static const int64_t padded_lengths[PADDED_BATCH] = {1024, 700, 333};

typedef struct bench {
    bench_pool pool;
    bench_crew crews[BENCH_MOST_WORKERS];
    int crew_count;
    bench_task tasks[MOST_TASKS];
    bench_line lines[MOST_TASKS];
    int task_count, line_count;
} bench;

static bench_task *add_task(bench *b, bench_task task)
{
    b->tasks[b->task_count] = task;
    return &b->tasks[b->task_count++];
}

static void add_line(bench *b, const bench_task *of, const bench_task *to, double floor,
                     double goal)
{
    b->lines[b->line_count++] = (bench_line){.of = of, .to = to, .floor = floor, .goal = goal};
}

static void add_against_sgemm(bench *b, const bench_task *task, const bench_task *sgemm)
{
    if (task->plan.params.mask.causal)
        add_line(b, task, sgemm, task->plan.shape.n < 1024 ? 0.82 : 0.87,
                 task->plan.shape.n < 1024 ? 0.90 : 0.95);
    else
        add_line(b, task, sgemm, 0.90, task->plan.shape.n < 1024 ? 0.95 : 0.97);
}

/* One shape on one worker and, where it is large enough, on two. Returns the former. */
static const bench_task *add_shape(bench *b, const attn_machine *machine, int64_t n, int64_t d,
                                   bool causal, bench_task *const sgemm[BENCH_MOST_WORKERS])
{
    const int64_t heads = n >= 2048 ? 2 : 4096 / n;
    const attn_shape shape = {1, heads, heads, n, n, d, d};
    const attn_mask mask = {.causal = causal};
    bench_task *one = add_task(b, bench_attend_task(&b->pool, machine, &shape, &mask, 1));
    add_against_sgemm(b, one, sgemm[0]);
    if (b->crew_count < 2 || n < 1024)
        return one;
    bench_task *two = add_task(b, bench_attend_task(&b->pool, machine, &shape, &mask, 2));
    add_against_sgemm(b, two, sgemm[1]);
    if (n >= 2048)
        add_line(b, two, one, 1.8, 1.95);
    return one;
}

static void add_awkward(bench *b, const attn_machine *machine, const bench_task *d64,
                        const bench_task *d128)
{
    const struct {
        const char *name;
        attn_shape shape;
        const int64_t *lengths;
        const bench_task *nearest;
    } awkward[] = {
        {"n 1000", {1, 4, 4, 1000, 1000, 64, 64}, NULL, d64},
        {"d 80", {1, 4, 4, 1024, 1024, 80, 80}, NULL, d64},
        {"d 96", {1, 4, 4, 1024, 1024, 96, 96}, NULL, d128},
        {"8 heads on 2 of k, v", {1, 8, 2, 1024, 1024, 64, 64}, NULL, d64},
        {"padded batch", {PADDED_BATCH, 4, 4, 1024, 1024, 64, 64}, padded_lengths, d64},
    };
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++) {
        const attn_mask mask = {.lengths = awkward[i].lengths};
        bench_task *task =
            add_task(b, bench_attend_task(&b->pool, machine, &awkward[i].shape, &mask, 1));
        snprintf(task->label, sizeof task->label, "%-6s full   %s", attn_isa_name(machine->isa),
                 awkward[i].name);
        add_line(b, task, awkward[i].nearest, 0.85, 0.95);
    }
}

static void add_round(bench *b, const attn_machine *machines, int machine_count, int64_t n)
{
    bench_task *sgemm[BENCH_MOST_WORKERS] = {0};
    for (int c = 0; c < b->crew_count; c++)
        sgemm[c] = add_task(b, bench_sgemm_task(&b->pool, c + 1));
    for (int i = 0; i < machine_count; i++) {
        const attn_machine *machine = &machines[i];
        const bench_task *d64 = add_shape(b, machine, n, 64, false, sgemm);
        add_shape(b, machine, n, 64, true, sgemm);
        const bench_task *d128 = add_shape(b, machine, n, 128, false, sgemm);
        add_shape(b, machine, n, 128, true, sgemm);
        if (n == AWKWARD_N)
            add_awkward(b, machine, d64, d128);
    }
}

/* The overlays of this CPU; returns how many. */
static int probe_machines(attn_machine machines[MACHINES])
{
    int count = 0;
    for (attn_isa isa = ATTN_ISA_AVX2; isa <= ATTN_ISA_AVX512; isa++) {
        attn_error error = {0};
        if (attn_machine_probe(&machines[count], attn_isa_name(isa), &error) == ATTN_OK)
            count++;
        else
            printf("SKIP %s: %s\n", attn_isa_name(isa), error.message);
    }
    return count;
}

static bool open_crews(bench *b)
{
    size_t scratch_bytes = ATTN_ALIGN;
    for (int i = 0; i < b->task_count; i++)
        if (b->tasks[i].plan.scratch_bytes > scratch_bytes)
            scratch_bytes = b->tasks[i].plan.scratch_bytes;
    attn_error error = {0};
    for (int c = 0; c < b->crew_count; c++)
        if (bench_crew_open(&b->crews[c], c + 1, scratch_bytes, &error) != ATTN_OK) {
            printf("SKIP: %s\n", error.message);
            return false;
        }
    return true;
}

static void time_everything(bench *b)
{
    /* Once unrecorded: pages, clocks and OpenBLAS's buffers warm up. */
    for (int i = 0; i < b->task_count; i++)
        bench_task_run_ns(&b->tasks[i], b->crews);
    for (int repetition = 0; repetition < BENCH_REPETITIONS; repetition++)
        for (int i = 0; i < b->task_count; i++) {
            bench_task *task = &b->tasks[i];
            task->rate.value[repetition] = task->flops / bench_task_run_ns(task, b->crews);
        }
}

/* Two sgemms that are not much faster together than one after the other say that there was no
 * second core to be had, whatever the number of cores. */
static void print_sgemm(const bench *b)
{
    const bench_task *one = &b->tasks[0], *two = b->crew_count > 1 ? &b->tasks[1] : one;
    bench_print_task(one, "in the first round");
    if (two == one) {
        printf("SKIP two workers: there is one core\n");
        return;
    }
    bench_print_task(two, "in the first round");
    bench_samples ratios = bench_ratios(&two->rate, &one->rate);
    double ratio = bench_summarize(&ratios).median;
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
        const bench_task *task = &b->tasks[i];
        const attn_shape *s = &task->plan.shape;
        bool simple = s->heads == s->kv_heads && !task->plan.params.mask.lengths;
        if (task->plan.mixer && simple && s->n == AWKWARD_N && task->workers == 1)
            bench_print_error(task, b->crews);
    }
}

static void run(bench *b, const attn_machine *machines, int machine_count)
{
    b->crew_count = machines[0].cores > 1 ? 2 : 1;
    for (size_t i = 0; i < sizeof round_sizes / sizeof *round_sizes; i++)
        add_round(b, machines, machine_count, round_sizes[i]);
    if (open_crews(b)) {
        time_everything(b);
        bench_print_head();
        for (int i = 0; i < b->line_count; i++)
            bench_print_line(&b->lines[i]);
        print_sgemm(b);
        print_errors(b);
    }
    for (int c = 0; c < b->crew_count; c++)
        bench_crew_close(&b->crews[c]);
}

int main(void)
{
    attn_blas_init();
    attn_machine machines[MACHINES];
    int machine_count = probe_machines(machines);
    bench *b = calloc(1, sizeof *b);
    if (b && machine_count > 0 && bench_pool_open(&b->pool))
        run(b, machines, machine_count);
    else
        printf("SKIP: no overlay to measure, or no memory\n");
    if (b)
        bench_pool_close(&b->pool);
    free(b);
    return EXIT_SUCCESS;
}
