/* The table `make bench` prints: one task in relation to another, beside the floor that must hold
 * and the goal. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "server/bench/task.h"

typedef struct bench_line {
    const srv_bench_task *of, *to;
    bool by_time; /* ratio of times, `to` over `of`; else of GFLOP/s, `of` over `to` */
    double floor, goal;
} bench_line;

/* What sgemm is, and what a reader has to know before comparing with it. */
void bench_print_head(int repetitions);

void bench_print_line(const bench_line *line);

/* A task by itself, with a remark behind. */
void bench_print_task(const srv_bench_task *task, const char *remark);

#endif
