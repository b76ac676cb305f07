/* How fast is fast enough: floors that must hold and goals ahead of them. */
#ifndef SERVER_BENCH_TARGETS_H
#define SERVER_BENCH_TARGETS_H

#include "attn/plan.h"

typedef enum srv_bench_beside {
    SRV_BENCH_SGEMM, /* ratio of flops a second */
    SRV_BENCH_EXACT, /* ratio of times, exact's to the backend's */
} srv_bench_beside;

typedef struct srv_bench_target {
    double floor, goal;
} srv_bench_target;

/* The target of a plan, or NULL where there is none for its sizes or the plan is of no mixer. */
const srv_bench_target *srv_bench_target_find(const attn_plan *plan, srv_bench_beside beside);

#endif
