/* The command line of `attnd bench`. */
#ifndef SERVER_BENCH_OPTIONS_H
#define SERVER_BENCH_OPTIONS_H

#include "attn/status.h"
#include "server/bench/samples.h"
#include "server/executor.h"

#include <stdio.h>

enum {
    SRV_BENCH_MOST_SIZES = 32
};

typedef struct srv_bench_SIZES {
    int count;
    int64_t value[SRV_BENCH_MOST_SIZES];
} srv_bench_SIZES;

typedef int64_t srv_bench_INT;
typedef bool srv_bench_SWITCH;
typedef const char *srv_bench_TEXT; /* borrowed from the arguments */

typedef struct srv_bench_options {
#define OPTION(member, kind, fallback, least, most, help) srv_bench_##kind member;
#include "server/bench/options.def"
#undef OPTION
} srv_bench_options;

/* Read the arguments after the command, NULL-terminated. ATTN_INVALID names what is wrong, and the
 * nearest of the names that are known. */
attn_status srv_bench_options_read(srv_bench_options *options, char *const *arguments,
                                   attn_error *error);

/* One line a flag. */
void srv_bench_options_help(FILE *out);

#endif
