/* Layers of a loaded model beside what their pieces take alone. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include "server/bench/task.h"

/* Measure and print a machine's lines on each of the executors, of 1 worker, 2, ...; the pool has
 * SRV_BENCH_SGEMM_SIDE squares of q, k, v and out. */
void bench_models_print(const attn_machine *machine, const srv_bench_pool *pool,
                        srv_executor *const *executors, int executor_count, int repetitions);

#endif
