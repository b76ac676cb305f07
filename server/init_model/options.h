/* The command line of `attnd init-model`. */
#ifndef SERVER_INIT_MODEL_OPTIONS_H
#define SERVER_INIT_MODEL_OPTIONS_H

#include "attn/status.h"
#include "attn/untrained.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct srv_init_NAMES {
    int count; /* 1 or more, once read */
    attn_backend value[ATTN_UNTRAINED_MIXERS_MAX];
} srv_init_NAMES;

typedef enum srv_init_CAUSAL {
    SRV_INIT_NEVER,
    SRV_INIT_ALWAYS,
    SRV_INIT_EITHER,
    SRV_INIT_UNSAID, /* not once read */
} srv_init_CAUSAL;

typedef int64_t srv_init_INT;
typedef bool srv_init_SWITCH;

typedef struct srv_init_options {
    const char *folder; /* borrowed from the arguments */
#define OPTION(member, kind, fallback, least, most, help) srv_init_##kind member;
#include "server/init_model/options.def"
#undef OPTION
} srv_init_options;

/* Read the arguments after the command, NULL-terminated, and fill in what was left to us.
 * ATTN_INVALID says in a sentence what does not go together. */
attn_status srv_init_options_read(srv_init_options *options, char *const *arguments,
                                  attn_error *error);

/* One line a flag. */
void srv_init_options_help(FILE *out);

#endif
