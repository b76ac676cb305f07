/* The two forms of a report; only report*.c includes this. */
#ifndef SERVER_BENCH_REPORT_FORMS_H
#define SERVER_BENCH_REPORT_FORMS_H

#include "server/bench/report.h"

/* Time of exact over that of the task; NaN when exact was not asked for. */
double srv_bench_times_exact(const srv_bench_task *task, const srv_bench_round *round);

/* For people: a row a backend. */
void srv_bench_table_head(srv_text *text, const srv_bench_subject *subject);
void srv_bench_table_round(srv_text *text, const srv_bench_subject *subject,
                           const srv_bench_round *round);

/* One JSON document. */
void srv_bench_json_head(srv_text *text, const srv_bench_subject *subject);
void srv_bench_json_round(srv_text *text, const srv_bench_subject *subject,
                          const srv_bench_round *round, bool first);
void srv_bench_json_end(srv_text *text);

#endif
