/* Who does the work: the calling thread alone, or the daemon's own executor. */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "server/executor.h"

typedef struct bench_crew {
    srv_executor *executor; /* NULL: the calling thread works */
    void *scratch;          /* for the calling thread */
    size_t scratch_bytes;
} bench_crew;

/* A phase of tiles, as attn/plan.h has it. */
typedef struct bench_work {
    attn_status (*run)(const void *context, int64_t tile, attn_arena *scratch);
    const void *context;
    int64_t tiles;
    size_t scratch_bytes; /* that a tile needs */
} bench_work;

/* `workers` of 1 need no thread. `scratch_bytes`: the most that any work will need. */
attn_status bench_crew_open(bench_crew *crew, int workers, size_t scratch_bytes, attn_error *error);
void bench_crew_close(bench_crew *crew);

/* Run every tile and return when all have ended, with the first failure if there is one. */
attn_status bench_crew_run(bench_crew *crew, const bench_work *work);

#endif
