/* What `make bench` times: tasks in rounds of one n, and the lines that hold them against each
 * other. */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include "tests/bench/support/table.h"

enum {
    BENCH_MOST_TASKS = 160,
    BENCH_MOST_WORKERS = 2,
    BENCH_ERRORS_N = 1024, /* the round whose errors are shown, and which awkward shapes are held
                              against */
    BENCH_PEER_N = 2048,
    BENCH_PEER_HEADS = 8,
};

typedef struct bench_rounds {
    srv_bench_pool pool;
    float *denormals; /* that many q, k or v */
    int most_workers; /* 1, or 2 where there are two cores */
    srv_bench_task tasks[BENCH_MOST_TASKS];
    bench_line lines[BENCH_MOST_TASKS];
    int task_count, line_count;
    const srv_bench_task *sgemm[BENCH_MOST_WORKERS]; /* of the round that is being put together */
    const srv_bench_task *beside_peer[2];            /* full, causal */
} bench_rounds;

/* Arrays for all tasks. Close it in any case. */
attn_status bench_rounds_open(bench_rounds *rounds, int cores, attn_error *error);
void bench_rounds_close(bench_rounds *rounds);

/* Every task and line, on each of these machines; ends the process when one is refused. */
void bench_rounds_add(bench_rounds *rounds, const attn_machine *machines, int machine_count);

#endif
