/* One block, cut into arrays. */
#include "server/bench/pool.h"

#include "attn/arena.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* Uniform on (0, 1]: Knuth's linear congruential generator, of which the high bits are good. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return ((double)(*state >> 32) + 1) * 0x1p-32;
}

/* Box and Muller (1958), two at a time. */
static void fill_normal(float *numbers, size_t count)
{
    uint64_t state = 1;
    for (size_t i = 0; i + 1 < count; i += 2) {
        double radius = sqrt(-2 * log(uniform(&state))), angle = 2 * M_PI * uniform(&state);
        numbers[i] = (float)(radius * cos(angle));
        numbers[i + 1] = (float)(radius * sin(angle));
    }
}

attn_status srv_bench_pool_open(srv_bench_pool *pool, const srv_bench_sizes *sizes,
                                attn_error *error)
{
    const size_t square = (size_t)SRV_BENCH_SGEMM_SIDE * SRV_BENCH_SGEMM_SIDE;
    const struct {
        float **array;
        size_t floats;
    } parts[] = {{&pool->q, sizes->q},
                 {&pool->k, sizes->k},
                 {&pool->v, sizes->v},
                 {&pool->out, sizes->out},
                 {&pool->e, sizes->e},
                 {&pool->omega, sizes->omega},
                 {&pool->factor[0], square},
                 {&pool->factor[1], square},
                 {&pool->product, square * (size_t)sizes->products}};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        bytes += attn_arena_round(parts[i].floats * sizeof(float));
    pool->block = aligned_alloc(ATTN_ALIGN, bytes);
    if (!pool->block)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL,
                              "no memory for arrays of %zu bytes: choose a smaller n", bytes);
    fill_normal(pool->block, bytes / sizeof(float));
    float *at = pool->block;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].array = at;
        at += attn_arena_round(parts[i].floats * sizeof(float)) / sizeof(float);
    }
    return ATTN_OK;
}

void srv_bench_pool_close(srv_bench_pool *pool)
{
    free(pool->block);
    pool->block = NULL;
}
