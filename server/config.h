/* The configuration: config.def filled from, in rising order of weight, its fallbacks, a JSON file,
 * the environment and the command line. */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include "attn/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    SRV_CONFIG_TEXT = 201 /* bytes of a TEXT value with its NUL */
};

typedef char srv_config_TEXT[SRV_CONFIG_TEXT];
typedef int64_t srv_config_INT;
typedef double srv_config_REAL;
typedef bool srv_config_BOOL;

typedef struct srv_config {
#define SETTING(member, kind, fallback, least, most, help) srv_config_##kind member;
#include "server/config.def"
#undef SETTING
} srv_config;

/* Read everything. `arguments` are those after the command, NULL-terminated; `environment` is
 * environ. Errors name the key, where it stood, what was found and what was expected; an unknown
 * key is refused with the nearest known one. *check and *print tell whether --check-config or
 * --print-config was among the arguments. */
attn_status srv_config_read(srv_config *config, char *const *arguments, char *const *environment,
                            bool *check, bool *print, attn_error *error);

/* Whether models are loaded and unloaded on request only. */
bool srv_config_is_explicit(const srv_config *config);

/* The flags with their meaning and default, as --help shows them. */
void srv_config_help(FILE *out);

/* The whole configuration as a JSON object. */
void srv_config_print(const srv_config *config, FILE *out);

#endif
