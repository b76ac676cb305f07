/* The random numbers that benchmarks compute with. */
#ifndef SERVER_BENCH_POOL_H
#define SERVER_BENCH_POOL_H

#include "attn/status.h"

#include <stddef.h>

enum {
    SRV_BENCH_SGEMM_SIDE = 2048
};

/* How many floats each array has. */
typedef struct srv_bench_sizes {
    size_t q, k, v, out; /* as attn/mixer.h lays them out */
    size_t e, omega;     /* Linformer's projection and Performer's directions */
    int products;        /* results of that many sgemms at a time */
} srv_bench_sizes;

/* Standard normal numbers, the same in every run; ATTN_ALIGN-aligned arrays inside one block. */
typedef struct srv_bench_pool {
    float *q, *k, *v, *out, *e, *omega;
    float *factor[2], *product; /* of sgemm, (SIDE, SIDE) each, `products` of the latter */
    float *block;
} srv_bench_pool;

attn_status srv_bench_pool_open(srv_bench_pool *pool, const srv_bench_sizes *sizes,
                                attn_error *error);
void srv_bench_pool_close(srv_bench_pool *pool);

#endif
