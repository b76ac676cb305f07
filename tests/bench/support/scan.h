/* The Mamba scan beside the exponentials that it cannot do without, on one thread. */
#ifndef BENCH_SCAN_H
#define BENCH_SCAN_H

#include "attn/machine.h"

void bench_scan_head(int repetitions);

/* Measure and print a machine's line: time / time of the exponentials alone, so less is better. */
void bench_scan_print(const attn_machine *machine, int repetitions);

#endif
