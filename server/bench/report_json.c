/* The same numbers for programs. */
#include "attn/blas.h"
#include "server/bench/report_forms.h"
#include "server/bench/targets.h"
#include "server/version.h"

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
    print_named(text, "times_exact", srv_bench_times_exact(task, round));
    print_named(text, "predicted_ms", task->predicted_ns / 1e6);
    srv_text_format(text, ",\"workspace_bytes\":{\"predicted\":%zu,\"measured\":%zu}",
                    task->predicted_bytes, task->workspace_bytes);
    print_target(text, task, "target_of_sgemm", SRV_BENCH_SGEMM);
    print_target(text, task, "target_times_exact", SRV_BENCH_EXACT);
    srv_text_string(text, "}");
}

void srv_bench_json_round(srv_text *text, const srv_bench_subject *subject,
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

void srv_bench_json_head(srv_text *text, const srv_bench_subject *subject)
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

void srv_bench_json_end(srv_text *text)
{
    srv_text_string(text, "\n]}\n");
}
