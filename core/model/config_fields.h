/* The table of config.def, and what the files that read config.json with it share. */
#ifndef CORE_MODEL_CONFIG_FIELDS_H
#define CORE_MODEL_CONFIG_FIELDS_H

#include "model/config.h"
#include "model/fields.h"

enum {
    ATTN_CONFIG_SIZE_MOST = INT32_MAX /* so that two sizes multiply to an int64_t */
};
#define ATTN_CONFIG_EPSILON 1e-5 /* the default */

/* Where a key may stand. Backends come first, so that 1 << backend is theirs. */
enum attn_config_where {
    AT_EXACT = 1 << ATTN_BACKEND_EXACT,
    AT_WINDOW = 1 << ATTN_BACKEND_WINDOW,
    AT_SPARSE = 1 << ATTN_BACKEND_SPARSE,
    AT_LINFORMER = 1 << ATTN_BACKEND_LINFORMER,
    AT_PERFORMER = 1 << ATTN_BACKEND_PERFORMER,
    AT_MAMBA = 1 << ATTN_BACKEND_MAMBA,
    AT_HYBRID = 1 << ATTN_BACKEND_HYBRID,
    AT_ALL_BACKENDS = (1 << ATTN_BACKENDS) - 1,
    AT_LENGTHS = 1 << 8,       /* of Performer's directions, in "backends" ... */
    AT_LAYER_LENGTHS = 1 << 9, /* ... and in a layer, whose own "norm" is another */
    AT_STACK_LAYER = 1 << 10,
    AT_DEFAULTS = 1 << 11,
    AT_FEED_FORWARD = 1 << 12,
    AT_LAYER = 1 << 13,
    AT_STACK = 1 << 14,
    AT_HF_TOP = 1 << 15,
    AT_HF_LAYER = 1 << 16,
    AT_ALL_TYPES = AT_LAYER | AT_STACK | AT_HF_TOP,
};

/* Every key, ended by a NULL one. */
extern const attn_field attn_config_fields[];

/* The defaults of a backend. */
attn_backend_config attn_config_backend_default(attn_backend kind, bool trained);

/* Read a rank that may be absent or "auto", which leave *rank alone. */
attn_status attn_config_read_rank(const attn_node *object, const char *key, int64_t *rank);

/* Read "backends" of a layer; the layers of a stack, and their defaults. */
attn_status attn_config_read_backends(const attn_node *root, attn_model_config *config);
attn_status attn_config_read_stack(const attn_node *root, attn_model_config *config);

/* Room for so many layers. */
attn_status attn_config_list_layers(attn_model_config *config, size_t count, attn_error *error);

#endif
