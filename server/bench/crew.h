/* Run one piece of work on the daemon's own executor and wait for it. */
#ifndef SERVER_BENCH_CREW_H
#define SERVER_BENCH_CREW_H

#include "server/executor.h"

/* Phases of tiles, as attn/plan.h has them. */
typedef struct srv_bench_work {
    attn_status (*run)(const void *context, int phase, int64_t tile, attn_arena *scratch);
    const void *context;
    const attn_phase *phases;
    int phase_count;
    size_t scratch_bytes; /* that a tile needs */
    int rounds; /* times that all phases run in one job: brief work would measure waking the worker
                 */
} srv_bench_work;

typedef struct srv_bench_result {
    attn_status status;
    double ns;            /* from submitting to the end, a round */
    double busy_ns;       /* processor time of the tiles, a round */
    size_t scratch_bytes; /* measured: the peaks of all workers, summed */
} srv_bench_result;

/* Run every tile and return when all have ended, with the first failure if there is one. */
srv_bench_result srv_bench_run(srv_executor *executor, const srv_bench_work *work);

#endif
