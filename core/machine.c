/* Look at the box: instruction set, cores, caches and memory.
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
#include <unistd.h>

static const char *const isa_names[ATTN_ISA_COUNT] = {
    [ATTN_ISA_SCALAR] = "scalar",
    [ATTN_ISA_AVX2] = "avx2",
    [ATTN_ISA_AVX512] = "avx512",
};

const char *attn_isa_name(attn_isa isa)
{
    return isa_names[isa];
}

static attn_status choose_isa(const char *name, attn_isa *isa, attn_error *error)
{
    for (int i = ATTN_ISA_COUNT - 1; i >= 0; i--) {
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

attn_status attn_machine_probe(attn_machine *machine, const char *isa, attn_error *error)
{
    *machine = (attn_machine){
        .cores = usable_cores(),
        .l1d_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE),
        .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE),
        .l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE),
        .memory_bytes = usable_memory(),
        .rates = attn_rates_default(),
    };
    return choose_isa(isa, &machine->isa, error);
}
