/* The form that was asked for, and what both forms say. */
#include "server/bench/report.h"

#include "server/bench/report_forms.h"

#include <math.h>
#include <string.h>

static const srv_bench_task *exact_of(const srv_bench_round *round)
{
    for (int i = 0; i < round->count; i++)
        if (round->refusal[i].status == ATTN_OK && strcmp(round->task[i].backend, "exact") == 0)
            return &round->task[i];
    return NULL;
}

double srv_bench_times_exact(const srv_bench_task *task, const srv_bench_round *round)
{
    const srv_bench_task *exact = exact_of(round);
    return exact ? srv_bench_ratio(&exact->ns, &task->ns) : NAN;
}

void srv_bench_print_head(srv_text *text, const srv_bench_subject *subject)
{
    if (subject->options->json)
        srv_bench_json_head(text, subject);
    else
        srv_bench_table_head(text, subject);
}

void srv_bench_print_round(srv_text *text, const srv_bench_subject *subject,
                           const srv_bench_round *round, bool first)
{
    if (subject->options->json)
        srv_bench_json_round(text, subject, round, first);
    else
        srv_bench_table_round(text, subject, round);
}

void srv_bench_print_end(srv_text *text, const srv_bench_subject *subject)
{
    if (subject->options->json)
        srv_bench_json_end(text);
}
