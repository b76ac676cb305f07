/* The table a benchmark prints: how fast one task is in relation to another, beside the floor that
 * must hold and the goal. */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include "tests/bench/support/task.h"

typedef struct bench_line {
    const bench_task *of, *to;
    double floor, goal;
} bench_line;

/* What sgemm is, and what a reader has to know before comparing with it. */
void bench_print_head(void);

void bench_print_line(const bench_line *line);

/* A task by itself, with a remark behind. */
void bench_print_task(const bench_task *task, const char *remark);

/* Errors of tasks on unit-normal arrays against the floor of 1e-6. */
void bench_print_errors_head(void);
void bench_print_error(const bench_task *task, bench_crew *crews);

#endif
