/* adapter_config.json: how an adapter was made, as far as running it depends on that. */
#ifndef CORE_MODEL_ADAPTER_CONFIG_H
#define CORE_MODEL_ADAPTER_CONFIG_H

#include "attn/status.h"
#include "model/warnings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value for the modules whose path is `name` or ends in ".name". */
typedef struct attn_pattern_value {
    char *name; /* owned */
    double value;
} attn_pattern_value;

typedef struct attn_pattern_list {
    attn_pattern_value *items; /* owned */
    size_t count;
} attn_pattern_list;

typedef struct attn_adapter_config {
    int64_t r;
    double lora_alpha;
    bool use_rslora;
    attn_pattern_list ranks, alphas; /* where they differ */
    attn_pattern_list targets;       /* "target_modules" when it is a list; the values are 0 */
} attn_adapter_config;

/* Read the file, or the text that `what` names; on failure there is nothing to free. Errors as
 * those of attn_model_config_read. */
attn_status attn_adapter_config_read(const char *path, attn_adapter_config *config,
                                     attn_warnings *warnings, attn_error *error);
attn_status attn_adapter_config_parse(const void *text, size_t bytes, const char *what,
                                      attn_adapter_config *config, attn_warnings *warnings,
                                      attn_error *error);
void attn_adapter_config_free(attn_adapter_config *config);

/* Whether the path is the name or ends in ".name". */
bool attn_module_ends_in(const char *module, const char *name);

/* Rank, and factor of B A, for a module. */
int64_t attn_adapter_config_rank(const attn_adapter_config *config, const char *module);
float attn_adapter_config_scale(const attn_adapter_config *config, const char *module);

#endif
