/* Rates beside each other, a line a floor. */
#include "tests/bench/support/table.h"

#include "attn/blas.h"

#include <stdio.h>
#include <stdlib.h>

void bench_print_head(int repetitions)
{
    printf("attention beside sgemm of %d: %s, an %s kernel\n", SRV_BENCH_SGEMM_SIDE,
           attn_blas_name(), attn_isa_name(srv_bench_sgemm_isa()));
    static const char *const settings[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (getenv(settings[i]))
            printf("note: %s=%s is set: sgemm may run otherwise than the library would choose\n",
                   settings[i], getenv(settings[i]));
    printf("Ratios to sgemm are judged where both use the same instruction set, the others are "
           "\"unlike\".\nMedian GFLOP/s [min-max] and median ratio of %d interleaved "
           "repetitions; \"busy\" is the ratio by\nprocessor time, which others on the machine "
           "disturb less.\n\n",
           repetitions);
    printf("%-46s %7s %-15s %-42s %6s %6s  %5s  %5s\n", "what", "GFLOP/s", "", "in relation to",
           "ratio", "busy", "floor", "goal");
}

static void print_rate(const srv_bench_task *task)
{
    srv_bench_summary rate = srv_bench_summarize(&task->rate);
    char range[40];
    snprintf(range, sizeof range, "[%.1f-%.1f]", rate.min, rate.max);
    printf("%-46s %7.1f %-15s ", task->label, rate.median, range);
}

static const char *verdict(const bench_line *line, double ratio)
{
    if (!line->to->backend && line->of->isa != srv_bench_sgemm_isa())
        return "unlike";
    return ratio >= line->floor ? "ok" : "MISSED";
}

/* By processor time. */
static double busy_ratio(const bench_line *line)
{
    double ratio = srv_bench_ratio(&line->of->busy_rate, &line->to->busy_rate);
    return line->by_time ? ratio * line->to->flops / line->of->flops : ratio;
}

void bench_print_line(const bench_line *line)
{
    double ratio = line->by_time ? srv_bench_ratio(&line->to->ns, &line->of->ns)
                                 : srv_bench_ratio(&line->of->rate, &line->to->rate);
    print_rate(line->of);
    printf("%-42s %6.3f %6.3f  %5.2f  %5.2f  %s\n", line->to->label, ratio, busy_ratio(line),
           line->floor, line->goal, verdict(line, ratio));
}

void bench_print_task(const srv_bench_task *task, const char *remark)
{
    print_rate(task);
    printf("%s\n", remark);
}
