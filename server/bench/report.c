#include "server/bench/report.h"

#include "attn/blas.h"
#include "server/bench/targets.h"
#include "server/version.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const srv_bench_task *exact_of(const srv_bench_round *round)
{
    for (int i = 0; i < round->count; i++)
        if (round->refusal[i].status == ATTN_OK && strcmp(round->task[i].backend, "exact") == 0)
            return &round->task[i];
    return NULL;
}

/* Time of exact over that of the task; NaN when exact was not asked for. */
static double times_exact(const srv_bench_task *task, const srv_bench_task *exact)
{
    return exact ? srv_bench_ratio(&exact->ns, &task->ns) : NAN;
}

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
    double faster = times_exact(task, exact_of(round));
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

static void print_table(srv_text *text, const srv_bench_subject *subject,
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

static void print_named(srv_text *text, const char *name, double value)
{
    srv_text_format(text, ",\"%s\":", name);
    srv_text_real(text, value);
}

static void print_summary(srv_text *text, const char *name, const srv_bench_samples *samples,
                          double unit)
{
    srv_bench_summary summary = srv_bench_summarize(samples);
    srv_text_format(text, ",\"%s\":{\"median\":", name);
    srv_text_real(text, summary.median / unit);
    srv_text_string(text, ",\"min\":");
    srv_text_real(text, summary.min / unit);
    srv_text_string(text, ",\"max\":");
    srv_text_real(text, summary.max / unit);
    srv_text_string(text, "}");
}

static void print_target(srv_text *text, const srv_bench_task *task, const char *name,
                         srv_bench_beside beside)
{
    const srv_bench_target *target = srv_bench_target_find(&task->plan, beside);
    if (!target)
        return;
    srv_text_format(text, ",\"%s\":{\"floor\":", name);
    srv_text_real(text, target->floor);
    srv_text_string(text, ",\"goal\":");
    srv_text_real(text, target->goal);
    srv_text_string(text, "}");
}

static void print_run(srv_text *text, const srv_bench_task *task, const srv_bench_round *round)
{
    srv_text_format(text, "{\"backend\":\"%s\",\"n\":%lld", task->backend, (long long)task->n);
    print_summary(text, "ms", &task->ns, 1e6);
    print_summary(text, "gflops", &task->rate, 1);
    print_named(text, "flops", task->flops);
    print_named(text, "of_sgemm", srv_bench_ratio(&task->rate, &round->sgemm.rate));
    print_named(text, "of_sgemm_busy", srv_bench_ratio(&task->busy_rate, &round->sgemm.busy_rate));
    print_named(text, "busy_ms",
                task->flops * task->workers / srv_bench_summarize(&task->busy_rate).median / 1e6);
    print_named(text, "times_exact", times_exact(task, exact_of(round)));
    print_named(text, "predicted_ms", task->predicted_ns / 1e6);
    srv_text_format(text, ",\"workspace_bytes\":{\"predicted\":%zu,\"measured\":%zu}",
                    task->predicted_bytes, task->workspace_bytes);
    print_target(text, task, "target_of_sgemm", SRV_BENCH_SGEMM);
    print_target(text, task, "target_times_exact", SRV_BENCH_EXACT);
    srv_text_string(text, "}");
}

static void print_json(srv_text *text, const srv_bench_subject *subject,
                       const srv_bench_round *round, bool first)
{
    srv_text_format(text, "%s\n{\"n\":%lld", first ? "" : ",", (long long)round->n);
    print_summary(text, "sgemm_gflops", &round->sgemm.rate, 1);
    srv_text_string(text, ",\"runs\":[");
    const char *between = "\n ";
    for (int i = 0; i < round->count; i++) {
        if (round->refusal[i].status != ATTN_OK)
            continue;
        srv_text_string(text, between);
        print_run(text, &round->task[i], round);
        between = ",\n ";
    }
    srv_text_string(text, "],\"left_out\":{");
    between = "";
    for (int i = 0; i < round->count; i++) {
        if (round->refusal[i].status == ATTN_OK)
            continue;
        srv_text_format(text, "%s\"%s\":", between, subject->backends[i]);
        srv_text_json(text, round->refusal[i].message);
        between = ",";
    }
    srv_text_string(text, "}}");
}

static void print_json_head(srv_text *text, const srv_bench_subject *subject)
{
    const srv_bench_options *o = subject->options;
    srv_text_string(text, "{\"version\":");
    srv_text_json(text, srv_version);
    srv_text_string(text, ",\"revision\":");
    srv_text_json(text, srv_revision);
    srv_text_format(text, ",\"isa\":\"%s\",\"sgemm_isa\":\"%s\",\"blas\":",
                    attn_isa_name(subject->machine->isa), attn_isa_name(srv_bench_sgemm_isa()));
    srv_text_json(text, attn_blas_name());
    srv_text_format(text,
                    ",\"cores\":%d,\"workers\":%d,\"repeat\":%lld,\"batch\":%lld,\"causal\":%s",
                    subject->machine->cores, subject->workers, (long long)o->repeat,
                    (long long)o->batch, subject->causal ? "true" : "false");
    if (subject->model) {
        const attn_model_info *info = attn_model_info_of(subject->model);
        srv_text_string(text, ",\"model\":");
        srv_text_json(text, info->name);
        srv_text_format(text, ",\"type\":\"%s\",\"hidden\":%lld,\"layers\":%lld,\"heads\":%lld",
                        info->type, (long long)info->hidden, (long long)info->layers,
                        (long long)info->heads);
    } else
        srv_text_format(text,
                        ",\"d\":%lld,\"heads\":%lld,\"kv_heads\":%lld,\"drawn\":%s,"
                        "\"window\":%lld,\"k\":%lld,\"features\":%lld",
                        (long long)o->d, (long long)o->heads, (long long)o->kv_heads,
                        o->drawn ? "true" : "false", (long long)o->window, (long long)o->k,
                        (long long)o->features);
    srv_text_string(text, ",\"rounds\":[");
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

void srv_bench_print_head(srv_text *text, const srv_bench_subject *subject)
{
    if (subject->options->json) {
        print_json_head(text, subject);
        return;
    }
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

void srv_bench_print_round(srv_text *text, const srv_bench_subject *subject,
                           const srv_bench_round *round, bool first)
{
    if (subject->options->json)
        print_json(text, subject, round, first);
    else
        print_table(text, subject, round);
}

void srv_bench_print_end(srv_text *text, const srv_bench_subject *subject)
{
    if (subject->options->json)
        srv_text_string(text, "\n]}\n");
}
