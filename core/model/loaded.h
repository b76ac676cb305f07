/* A model in memory, as model.c builds it from the files and run.c reads it. */
#ifndef CORE_MODEL_LOADED_H
#define CORE_MODEL_LOADED_H

#include "attn/model.h"
#include "model/attention.h"
#include "model/feed_forward.h"
#include "model/mamba.h"
#include "model/weights.h"

/* One layer: what it has of a norm and a mixer of either kind, of a norm and a feed-forward. */
typedef struct attn_layer {
    bool attends, recurs, feeds;
    attn_attention attention;
    attn_mamba mamba;
    attn_feed_forward feed_forward;
    attn_row_norm norm, feed_norm; /* kind NONE: none */
    bool residual;
    attn_backend backend; /* of a stack: its mixer, and the parameters of it */
    attn_mix_params mix;
} attn_layer;

/* Memory that lives as long as the model. */
typedef struct attn_block attn_block;

struct attn_model {
    attn_model_config config;
    attn_weights *weights;
    int64_t hidden;
    attn_layer *layers;
    int layer_count;
    attn_row_norm final_norm;
    attn_block *blocks;
    size_t block_bytes;
    attn_adaptable *modules; /* every linear map that was taken */
    int module_count, module_room;
    attn_adapter **adapters;
    const char **adapter_names; /* sorted */
    int adapter_count;
    attn_model_backend backends[ATTN_BACKENDS];
    attn_model_info info;
};

/* Below, `error` is never NULL: a caller reads the status of what failed from it.
 *
 * `bytes` of zeros, ATTN_ALIGN-aligned, that the model frees; NULL and an error without memory. */
void *attn_model_block(attn_model *model, size_t bytes, attn_error *error);

void attn_model_free_blocks(attn_model *model);

/* Two texts joined, kept as long as the model; NULL as above. */
const char *attn_model_text(attn_model *model, const char *head, const char *tail,
                            attn_error *error);

/* Whether there is a tensor `<base><sub><name>` for one of the NULL-terminated `subs`. */
bool attn_model_finds(const attn_model *model, const char *base, const char *const *subs,
                      const char *name);

/* `base` and that one of the NULL-terminated `subs` under which there is a tensor `name`; the last
 * one when there is none, so that whoever takes the tensor says what is missing. NULL: no memory.
 */
const char *attn_model_prefix(attn_model *model, const char *base, const char *const *subs,
                              const char *name, attn_error *error);

/* Take the vector `<prefix><name>` (count) into *to, which becomes NULL when there is none and the
 * switch does not demand it, or when it says no. */
attn_status attn_vector_take(attn_model *model, const char *prefix, const char *name, int64_t count,
                             attn_switch wanted, const float **to, attn_error *error);

/* Take `<prefix><name>.weight` (rows, columns), either of which may be ATTN_ANY, and note it as a
 * module that adapters may adapt; and `<prefix><name>.bias` (rows) as a vector is taken. */
attn_status attn_linear_take(attn_model *model, const char *prefix, const char *name, int64_t rows,
                             int64_t columns, attn_switch bias, attn_linear *linear,
                             attn_error *error);

/* Take the parts of a layer whose tensors begin with `base`; sizes that the configuration leaves
 * open come from the tensors, and model->hidden from the first of them. */
attn_status attn_attention_take(attn_model *model, const char *base, attn_attention *attention,
                                attn_error *error);
attn_status attn_projection_take(attn_model *model, const char *base, const attn_mix_params *mix,
                                 attn_attention *attention, attn_error *error);
attn_status attn_mamba_take(attn_model *model, const char *base, const attn_mamba_config *config,
                            attn_mamba *mamba, attn_error *error);
attn_status attn_row_norm_take(attn_model *model, const char *prefix,
                               const attn_norm_config *config, attn_row_norm *norm,
                               attn_error *error);
attn_status attn_feed_forward_take(attn_model *model, const char *base,
                                   const attn_feed_forward_config *config,
                                   attn_feed_forward *feed_forward, attn_error *error);

/* Whether the folder holds the tensors of an attention layer, of Linformer's projections for it, or
 * of a Mamba block under `base`. */
bool attn_attention_found(const attn_model *model, const char *base);
bool attn_projection_found(const attn_model *model, const char *base);
bool attn_mamba_found(const attn_model *model, const char *base);

/* How a backend is reported; of linformer with the sizes of the matrices that were taken. */
void attn_backend_describe(attn_model_backend *to, attn_backend backend, bool trained,
                           const attn_mix_params *mix, const attn_attention *attention);

/* Fill model->layers, ->final_norm and ->backends from configuration and tensors: of one layer, of
 * a stack. */
attn_status attn_layer_load(attn_model *model, attn_error *error);
attn_status attn_stack_load(attn_model *model, attn_error *error);

/* Open every folder under `<folder>/adapters` and hold it against the modules. */
attn_status attn_adapters_load(attn_model *model, const char *folder, attn_error *error);

#endif
