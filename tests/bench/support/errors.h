/* How exact what was timed is: errors on unit-normal arrays against the floor of 1e-6. */
#ifndef BENCH_ERRORS_H
#define BENCH_ERRORS_H

#include "server/bench/task.h"

void bench_print_errors_head(void);

/* Of what the task last wrote: exact attention, with no mask but a causal one and as many heads of
 * k and v as of q. */
void bench_print_error(const srv_bench_task *task);

#endif
