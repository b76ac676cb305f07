/* The table, with the floors and goals that a row has behind it. */
#include "attn/blas.h"
#include "server/bench/report_forms.h"
#include "server/bench/targets.h"

#include <math.h>
#include <stdio.h>

static void print_verdict(srv_text *text, const srv_bench_task *task, srv_bench_beside beside,
                          double ratio)
{
    const srv_bench_target *target = srv_bench_target_find(&task->plan, beside);
    if (!target)
        return;
    const char *verdict = ratio >= target->floor ? "ok" : "MISSED";
    if (beside == SRV_BENCH_SGEMM && task->isa != srv_bench_sgemm_isa())
        verdict = "unlike";
    srv_text_format(text, "  %s %.2f, goal %.2f: %s", beside == SRV_BENCH_SGEMM ? "sgemm" : "exact",
                    target->floor, target->goal, verdict);
}

static void print_row(srv_text *text, const srv_bench_task *task, const srv_bench_round *round)
{
    srv_bench_summary ns = srv_bench_summarize(&task->ns);
    double of_sgemm = srv_bench_ratio(&task->rate, &round->sgemm.rate);
    double faster = srv_bench_times_exact(task, round);
    char range[40];
    snprintf(range, sizeof range, "[%.2f-%.2f]", ns.min / 1e6, ns.max / 1e6);
    srv_text_format(text, "%8lld  %-10s %10.2f %-19s %8.1f %7.2f %6.2f", (long long)task->n,
                    task->backend, ns.median / 1e6, range, srv_bench_summarize(&task->rate).median,
                    of_sgemm, srv_bench_ratio(&task->busy_rate, &round->sgemm.busy_rate));
    if (isnan(faster))
        srv_text_format(text, " %8s", "-");
    else
        srv_text_format(text, " %7.2fx", faster);
    srv_text_format(text, " %11zu %11zu", task->predicted_bytes, task->workspace_bytes);
    print_verdict(text, task, SRV_BENCH_SGEMM, of_sgemm);
    print_verdict(text, task, SRV_BENCH_EXACT, faster);
    srv_text_string(text, "\n");
}

void srv_bench_table_round(srv_text *text, const srv_bench_subject *subject,
                           const srv_bench_round *round)
{
    for (int i = 0; i < round->count; i++)
        if (round->refusal[i].status == ATTN_OK)
            print_row(text, &round->task[i], round);
        else
            srv_text_format(text, "%8s  %-10s left out: %s\n", "", subject->backends[i],
                            round->refusal[i].message);
    srv_bench_summary rate = srv_bench_summarize(&round->sgemm.rate);
    srv_text_format(text, "%8s  %-10s %30s %8.1f [%.1f-%.1f]\n", "", "sgemm", "", rate.median,
                    rate.min, rate.max);
}

/* What is timed, in one line. */
static void print_sizes(srv_text *text, const srv_bench_subject *subject)
{
    const srv_bench_options *o = subject->options;
    const char *causal = subject->causal ? "causal" : "full";
    srv_text_format(text, "%s kernels, %d worker%s; batch %lld, %s; ",
                    attn_isa_name(subject->machine->isa), subject->workers,
                    subject->workers > 1 ? "s" : "", (long long)o->batch, causal);
    if (subject->model) {
        const attn_model_info *info = attn_model_info_of(subject->model);
        srv_text_format(text, "%s %.80s: hidden %lld, layers %lld, heads %lld\n", info->type,
                        info->name, (long long)info->hidden, (long long)info->layers,
                        (long long)info->heads);
    } else
        srv_text_format(text, "d %lld, heads %lld on %lld; window %lld, k %lld, features %lld\n",
                        (long long)o->d, (long long)o->heads, (long long)o->kv_heads,
                        (long long)o->window, (long long)o->k, (long long)o->features);
}

void srv_bench_table_head(srv_text *text, const srv_bench_subject *subject)
{
    print_sizes(text, subject);
    srv_text_format(text,
                    "beside sgemm of %d on as many workers: %s, an %s kernel\n"
                    "medians of %lld interleaved repetitions; GFLOP/s of %s; busy: /sgemm by "
                    "processor time\n\n"
                    "%8s  %-10s %10s %-19s %8s %7s %6s %8s %11s %11s  %s\n",
                    SRV_BENCH_SGEMM_SIDE, attn_blas_name(), attn_isa_name(srv_bench_sgemm_isa()),
                    (long long)subject->options->repeat,
                    subject->model ? "the linear maps" : "the backend's own work", "n", "backend",
                    "ms", "[min-max]", "GFLOP/s", "/sgemm", "busy", "exact/", "predicted B",
                    "measured B", "floor, goal");
}
