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
#include "tests/bench/support/errors.h"
#include "tests/bench/support/model.h"
#include "tests/bench/support/peer.h"
#include "tests/bench/support/rounds.h"
#include "tests/bench/support/scan.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    MACHINES = 2,
    REPETITIONS = 9,
};

typedef struct bench {
    bench_rounds rounds;
    srv_executor *executors[BENCH_MOST_WORKERS]; /* with one worker, with two */
} bench;

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
        for (int i = 0; i < b->rounds.task_count; i++) {
            srv_bench_task *task = &b->rounds.tasks[i];
            srv_bench_task_run(task, b->executors[task->workers - 1], repetition > 0);
        }
    }
}

/* Two sgemms that are not much faster together than one after the other say that there was no
 * second core to be had, whatever the number of cores. */
static void print_sgemm(const bench *b)
{
    const srv_bench_task *one = &b->rounds.tasks[0],
                         *two = b->rounds.most_workers > 1 ? &b->rounds.tasks[1] : one;
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
    for (int i = 0; i < b->rounds.task_count; i++) {
        srv_bench_task *task = &b->rounds.tasks[i];
        const attn_shape *s = &task->plan.shape;
        bool simple = s->heads == s->kv_heads && !task->plan.params.mask.lengths;
        if (task->plan.mixer && simple && s->n == BENCH_ERRORS_N && task->workers == 1 &&
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
    if (!bench_peer_torch(&peer, b->rounds.most_workers, BENCH_PEER_HEADS, BENCH_PEER_N, 64,
                          REPETITIONS)) {
        printf("\nSKIP PyTorch: absent; ATTND_BENCH_PYTHON names a Python that has torch\n");
        return;
    }
    printf("\n%s, %d threads, n %d d 64 heads %d, just after: times as fast as that\n", peer.name,
           b->rounds.most_workers, BENCH_PEER_N, BENCH_PEER_HEADS);
    for (int causal = 0; causal < 2; causal++) {
        double theirs = causal ? peer.causal_ms : peer.full_ms;
        double ours = srv_bench_summarize(&b->rounds.beside_peer[causal]->ns).median / 1e6;
        printf("%-46s %7.2f ms, theirs %8.2f ms: %6.2f  %5.2f  %5.2f  %s\n",
               b->rounds.beside_peer[causal]->label, ours, theirs, theirs / ours,
               rows[causal].floor, rows[causal].goal,
               theirs / ours >= rows[causal].floor ? "ok" : "MISSED");
    }
}

static void run(bench *b, const attn_machine *machines, int machine_count)
{
    bench_rounds_add(&b->rounds, machines, machine_count);
    time_everything(b);
    bench_print_head(REPETITIONS);
    for (int i = 0; i < b->rounds.line_count; i++)
        bench_print_line(&b->rounds.lines[i]);
    print_sgemm(b);
    print_errors(b);
    bench_scan_head(REPETITIONS);
    for (int i = 0; i < machine_count; i++)
        bench_scan_print(&machines[i], REPETITIONS);
    for (int i = 0; i < machine_count; i++)
        bench_models_print(&machines[i], &b->rounds.pool, b->executors, b->rounds.most_workers,
                           REPETITIONS);
    print_peer(b);
}

static attn_status open_bench(bench *b, int cores, attn_error *error)
{
    attn_status status = bench_rounds_open(&b->rounds, cores, error);
    for (int c = 0; c < b->rounds.most_workers && status == ATTN_OK; c++) {
        b->executors[c] = srv_executor_open(c + 1, error);
        status = b->executors[c] ? ATTN_OK : error->status;
    }
    return status;
}

static void close_bench(bench *b)
{
    for (int c = 0; c < BENCH_MOST_WORKERS; c++)
        srv_executor_close(b->executors[c]);
    bench_rounds_close(&b->rounds);
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
