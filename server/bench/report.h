/* What `attnd bench` prints: a table for people or one JSON document. */
#ifndef SERVER_BENCH_REPORT_H
#define SERVER_BENCH_REPORT_H

#include "server/bench/subject.h"
#include "server/text.h"

/* One n: the yardstick and the backends, those that refused with their reason. */
typedef struct srv_bench_round {
    int64_t n;
    srv_bench_task sgemm;
    srv_bench_task task[SRV_BENCH_MOST_BACKENDS];
    attn_error refusal[SRV_BENCH_MOST_BACKENDS]; /* of status ATTN_OK: it ran */
    int count;
} srv_bench_round;

void srv_bench_print_head(srv_text *text, const srv_bench_subject *subject);
void srv_bench_print_round(srv_text *text, const srv_bench_subject *subject,
                           const srv_bench_round *round, bool first);
void srv_bench_print_end(srv_text *text, const srv_bench_subject *subject);

#endif
