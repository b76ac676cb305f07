/* Look at the box: instruction set, cores, caches, memory, and how fast attention runs on it.
 *
 * Containers lie by omission: the number of CPUs online says nothing about affinity or the cgroup's
 * quota, and the amount of RAM nothing about the cgroup's limit, so all of them are asked and the
 * smallest wins. Both cgroup versions are read, at the places where a container sees its own. */
#include "attn/machine.h"

#include "kernels/kernels.h"

#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const isa_names[] = {
    [ATTN_ISA_SCALAR] = "scalar",
    [ATTN_ISA_AVX2] = "avx2",
    [ATTN_ISA_AVX512] = "avx512",
};
enum {
    ISAS = sizeof isa_names / sizeof *isa_names
};

const char *attn_isa_name(attn_isa isa)
{
    return isa_names[isa];
}

static attn_status choose_isa(const char *name, attn_isa *isa, attn_error *error)
{
    for (int i = ISAS - 1; i >= 0; i--) {
        bool usable = attn_kernels_find((attn_isa)i) != NULL;
        if (strcmp(name, "auto") == 0 ? usable : strcmp(name, isa_names[i]) == 0) {
            *isa = (attn_isa)i;
            return usable
                       ? ATTN_OK
                       : attn_error_set(error, ATTN_UNSUPPORTED, "isa",
                                        "isa is \"%s\", which this CPU cannot run; use auto", name);
        }
    }
    return attn_error_set(error, ATTN_INVALID, "isa",
                          "isa is \"%.24s\", expected auto, scalar, avx2 or avx512", name);
}

/* First line of a small file, or false. */
static bool read_line(const char *path, char line[128])
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(line, 128, file) != NULL;
    fclose(file);
    return got;
}

/* Cores that the cgroup's quota allows, rounded up, or `cores` without one. */
static int cgroup_cores(int cores)
{
    char line[128], period_line[128];
    double quota = 0, period = 0;
    if (read_line("/sys/fs/cgroup/cpu.max", line)) {
        if (sscanf(line, "%lf %lf", &quota, &period) != 2)
            return cores; /* "max" */
    } else if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line) &&
               read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period_line)) {
        quota = atof(line);
        period = atof(period_line);
    }
    if (quota <= 0 || period <= 0)
        return cores;
    double allowed = ceil(quota / period);
    return allowed < cores ? (int)allowed : cores;
}

static int usable_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int cores = online > 0 ? (int)online : 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < cores)
        cores = CPU_COUNT(&set);
    return cgroup_cores(cores);
}

static size_t usable_memory(void)
{
    size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        char line[128];
        unsigned long long limit;
        if (read_line(limits[i], line) && sscanf(line, "%llu", &limit) == 1 && limit < bytes)
            bytes = (size_t)limit;
    }
    return bytes;
}

static size_t cache_bytes(int level_name)
{
    long bytes = sysconf(level_name);
    return bytes > 0 ? (size_t)bytes : 0;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* A tile of a common shape, to be timed. */
enum {
    ROWS = 96,
    KEYS = 192,
    D = 64,
    RUNS = 5
};

/* One run over (ROWS + KEYS, D) floats, which it makes: the queries, where the answer goes too, and
 * the keys, which are the values as well. */
static attn_status time_tile(const attn_kernels *kernels, float *data, attn_arena *arena,
                             double *took_ns)
{
    for (int i = 0; i < (ROWS + KEYS) * D; i++)
        data[i] = (float)(i % 7) * 0.125F;
    const attn_span span = {.step = 1, .count = KEYS, .first = -ATTN_NO_EDGE, .last = ATTN_NO_EDGE};
    const attn_tile tile = {.q = data,
                            .k = data + ROWS * D,
                            .v = data + ROWS * D,
                            .out = data,
                            .q_stride = D,
                            .k_stride = D,
                            .v_stride = D,
                            .out_stride = D,
                            .rows = ROWS,
                            .d = D,
                            .dv = D,
                            .scale = 0.125F,
                            .spans = &span,
                            .span_count = 1};
    uint64_t scores = 0;
    double start_ns = now_ns();
    attn_status status = kernels->attend(&tile, arena, &scores);
    *took_ns = now_ns() - start_ns;
    return status;
}

/* The best of a few runs, since noise only ever adds. */
static attn_status measure_attention(attn_machine *machine)
{
    const attn_kernels *kernels = attn_kernels_find(machine->isa);
    size_t bytes = attn_arena_round(kernels->attend_bytes(ROWS, D, D, false));
    float *data = aligned_alloc(ATTN_ALIGN, (ROWS + KEYS) * D * sizeof *data);
    void *memory = aligned_alloc(ATTN_ALIGN, bytes);
    attn_status status = data && memory ? ATTN_OK : ATTN_NO_MEMORY;
    double best_ns = INFINITY;
    attn_arena arena;
    attn_arena_init(&arena, memory, bytes);
    for (int run = 0; run < RUNS && status == ATTN_OK; run++) {
        double took_ns;
        status = time_tile(kernels, data, &arena, &took_ns);
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    free(data);
    free(memory);
    machine->attend_flops_per_ns = 4.0 * ROWS * KEYS * D / (best_ns > 1 ? best_ns : 1);
    return status;
}

attn_status attn_machine_probe(attn_machine *machine, const char *isa, attn_error *error)
{
    *machine = (attn_machine){
        .cores = usable_cores(),
        .l1d_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE),
        .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE),
        .l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE),
        .memory_bytes = usable_memory(),
    };
    attn_status status = choose_isa(isa, &machine->isa, error);
    if (status != ATTN_OK)
        return status;
    status = measure_attention(machine);
    if (status != ATTN_OK)
        attn_error_set(error, status, NULL, "no memory to time a tile in");
    return status;
}
