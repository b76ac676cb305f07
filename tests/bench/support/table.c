#include "tests/bench/support/table.h"

#include "attn/blas.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The instruction set of the kernel that sgemm runs, as far as its name tells; else scalar. */
static attn_isa sgemm_isa(void)
{
    static const struct {
        const char *core;
        attn_isa isa;
    } known[] = {{"SkylakeX", ATTN_ISA_AVX512},
                 {"Cooperlake", ATTN_ISA_AVX512},
                 {"SapphireRapids", ATTN_ISA_AVX512},
                 {"Haswell", ATTN_ISA_AVX2},
                 {"Zen", ATTN_ISA_AVX2},
                 {"Excavator", ATTN_ISA_AVX2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(attn_blas_name(), known[i].core))
            return known[i].isa;
    return ATTN_ISA_SCALAR;
}

void bench_print_head(void)
{
    printf("exact attention beside sgemm of %d: %s, an %s kernel\n", BENCH_SGEMM_SIDE,
           attn_blas_name(), attn_isa_name(sgemm_isa()));
    static const char *const settings[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (getenv(settings[i]))
            printf("note: %s=%s is set: sgemm may run otherwise than the library would choose\n",
                   settings[i], getenv(settings[i]));
    printf("Ratios to sgemm are judged where both use the same instruction set, the others are "
           "\"unlike\".\nMedian GFLOP/s [min-max] and median ratio of %d interleaved "
           "repetitions.\n\n",
           BENCH_REPETITIONS);
    printf("%-38s %7s %-15s %-31s %5s  %5s  %4s\n", "what", "GFLOP/s", "", "in relation to",
           "ratio", "floor", "goal");
}

static void print_rate(const bench_task *task)
{
    bench_summary rate = bench_summarize(&task->rate);
    char range[32];
    snprintf(range, sizeof range, "[%.1f-%.1f]", rate.min, rate.max);
    printf("%-38s %7.1f %-15s ", task->label, rate.median, range);
}

static const char *verdict(const bench_line *line, double ratio)
{
    if (!line->to->plan.mixer && line->of->plan.kernels->isa != sgemm_isa())
        return "unlike";
    return ratio >= line->floor ? "ok" : "MISSED";
}

void bench_print_line(const bench_line *line)
{
    bench_samples ratios = bench_ratios(&line->of->rate, &line->to->rate);
    double ratio = bench_summarize(&ratios).median;
    print_rate(line->of);
    printf("%-31s %5.3f  %5.2f  %4.2f  %s\n", line->to->label, ratio, line->floor, line->goal,
           verdict(line, ratio));
}

void bench_print_task(const bench_task *task, const char *remark)
{
    print_rate(task);
    printf("%s\n", remark);
}

void bench_print_errors_head(void)
{
    printf("\n%-38s %7s  %5s\n", "unit-normal q, k, v: error / max |v|", "", "floor");
}

void bench_print_error(const bench_task *task, bench_crew *crews)
{
    const double most = 1e-6;
    double error = bench_task_error(task, crews);
    printf("%-38s %7.1e  %.0e  %s\n", task->label, error, most, error <= most ? "ok" : "MISSED");
}
