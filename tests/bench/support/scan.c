#include "tests/bench/support/scan.h"

#include "kernels/kernels.h"
#include "server/bench/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    POSITIONS = 1024,
    CHANNELS = 1536,
    STATES = 16,
    ELEMENTS = POSITIONS * CHANNELS
};

/* (POSITIONS, CHANNELS) and the like, all of them random. */
typedef struct arrays {
    float x[ELEMENTS], dt[ELEMENTS], z[ELEMENTS], y[ELEMENTS];
    float b[POSITIONS * STATES], c[POSITIONS * STATES];
    float bias[CHANNELS], skip[CHANNELS], a_log[CHANNELS * STATES];
    float a[CHANNELS * STATES] __attribute__((aligned(ATTN_ALIGN)));
    float h[CHANNELS * STATES] __attribute__((aligned(ATTN_ALIGN)));
} arrays;

/* Uniform on [-1, 1): Knuth's linear congruence. */
static void fill(float *values, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        values[i] = (float)(int32_t)(seed >> 32) * 0x1p-31F;
    }
}

/* As a layer begins its training: A = -1 to -16, and steps from 0.02 to 0.13. */
static void open_arrays(arrays *m)
{
    float *const random[] = {m->x, m->dt, m->z};
    for (size_t i = 0; i < sizeof random / sizeof *random; i++)
        fill(random[i], ELEMENTS, i);
    fill(m->b, POSITIONS * STATES, 3);
    fill(m->c, POSITIONS * STATES, 4);
    fill(m->skip, CHANNELS, 5);
    memset(m->y, 0, sizeof m->y);
    memset(m->h, 0, sizeof m->h);
    for (int i = 0; i < CHANNELS; i++)
        m->bias[i] = -3;
    for (int i = 0; i < CHANNELS * STATES; i++)
        m->a_log[i] = logf((float)(1 + i % STATES));
    attn_scan_prepare(m->a_log, CHANNELS, STATES, m->a);
}

static double thread_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double scan_ns(const attn_scan_kernels *kernels, const attn_scan *scan)
{
    double begin = thread_ns();
    kernels->scan(scan, 0, CHANNELS);
    return thread_ns() - begin;
}

static double exponentials_ns(const attn_scan_kernels *kernels)
{
    double begin = thread_ns();
    volatile float sum = kernels->exponentials((int64_t)ELEMENTS * STATES);
    (void)sum;
    return thread_ns() - begin;
}

void bench_scan_head(int repetitions)
{
    printf("\nMamba scan, %d states, %d channels, %d positions: processor time beside that of its "
           "exponentials\nalone, median of %d interleaved repetitions; less is better\n",
           STATES, CHANNELS, POSITIONS, repetitions);
    printf("%-46s %9s %9s %6s  %5s  %5s\n", "what", "ms", "alone", "ratio", "floor", "goal");
}

static void print_ratio(const attn_machine *machine, const char *what, const srv_bench_samples *ns,
                        const srv_bench_samples *alone)
{
    char label[64];
    snprintf(label, sizeof label, "%s scan%s", attn_isa_name(machine->isa), what);
    printf("%-46s %9.2f %9.2f %6.3f", label, srv_bench_summarize(ns).median / 1e6,
           srv_bench_summarize(alone).median / 1e6, srv_bench_ratio(ns, alone));
}

static attn_scan scan_of(arrays *m)
{
    return (attn_scan){.count = POSITIONS,
                       .channels = CHANNELS,
                       .states = STATES,
                       .euler = true,
                       .x = m->x,
                       .dt = m->dt,
                       .b = m->b,
                       .c = m->c,
                       .y = m->y,
                       .x_stride = CHANNELS,
                       .dt_stride = CHANNELS,
                       .b_stride = STATES,
                       .c_stride = STATES,
                       .z_stride = CHANNELS,
                       .y_stride = CHANNELS,
                       .a = m->a,
                       .dt_bias = m->bias,
                       .skip = m->skip,
                       .h = m->h};
}

void bench_scan_print(const attn_machine *machine, int repetitions)
{
    const double floor = 1.6, goal = 1.3;
    const attn_scan_kernels *kernels = attn_kernels_find(machine->isa)->scan;
    void *memory = NULL;
    if (posix_memalign(&memory, ATTN_ALIGN, sizeof(arrays)) != 0) {
        printf("SKIP the scan: no memory\n");
        return;
    }
    arrays *m = memory;
    open_arrays(m);
    const attn_scan plain = scan_of(m);
    attn_scan gated = plain;
    gated.z = m->z;
    srv_bench_samples alone = {0}, plain_ns = {0}, gated_ns = {0};
    for (int i = 0; i < repetitions; i++) {
        srv_bench_sample(&alone, exponentials_ns(kernels));
        srv_bench_sample(&plain_ns, scan_ns(kernels, &plain));
        srv_bench_sample(&gated_ns, scan_ns(kernels, &gated));
    }
    print_ratio(machine, "", &plain_ns, &alone);
    printf("  %5.2f  %5.2f  %s\n", floor, goal,
           srv_bench_ratio(&plain_ns, &alone) <= floor ? "ok" : "MISSED");
    print_ratio(machine, " with its gate", &gated_ns, &alone);
    printf("\n");
    free(memory);
}
