/* config.json of a model folder, as plain data. config.def has every key, its range and where it
 * may stand; here is what the keys mean where the format leaves a choice.
 *
 * "model_type" is required:
 *   "layer"  one attention layer, a Mamba block, or both; "backends" lists what it may be run with
 *   "stack"  "layers" in order, each {"mixer": name, the mixer's own keys, "norm", "norm_eps",
 *            "residual", "feed_forward"}; "norm", "norm_eps" and "residual" at the top are the
 *            defaults of the layers, and "final_norm" comes after the last
 *   "mamba"  Hugging Face's MambaConfig as transformers writes it
 *
 * A size that is 0 here was absent, or null, and is to be taken from the tensors. Keys that are not
 * known warn, with their path; a known key of the wrong type or out of range is an error. What
 * transformers writes beside the sizes (dtype, token ids, ...) is passed over without a word. */
#ifndef CORE_MODEL_CONFIG_H
#define CORE_MODEL_CONFIG_H

#include "attn/backend.h"
#include "attn/model.h"
#include "model/warnings.h"

typedef enum attn_model_type {
    ATTN_MODEL_LAYER,
    ATTN_MODEL_STACK,
    ATTN_MODEL_MAMBA,
} attn_model_type;

/* A switch that follows the tensors unless the config says otherwise: ATTN_YES demands the tensor,
 * ATTN_NO passes over it. */
typedef enum attn_switch {
    ATTN_UNSAID,
    ATTN_NO,
    ATTN_YES,
} attn_switch;

/* The recurrence's form; the article's SelectiveSSM has B, C, dt in x_proj in that order. */
typedef enum attn_mamba_variant {
    ATTN_MAMBA_OFFICIAL,
    ATTN_MAMBA_ARTICLE,
} attn_mamba_variant;

/* h = exp(dt A) h + dt B x (Euler, every released checkpoint), or the article's + B x. */
typedef enum attn_discretization {
    ATTN_EULER,
    ATTN_ARTICLE,
} attn_discretization;

typedef struct attn_mamba_config {
    int64_t d_state, d_conv, expand, dt_rank; /* 0: from the tensors; dt_rank "auto" is 0 too */
    int64_t d_inner; /* MambaConfig's intermediate_size; 0: expand*hidden */
    attn_mamba_variant variant;
    attn_discretization discretization; /* ATTN_ARTICLE only with the article's variant */
    attn_switch bias;                   /* of in_proj and out_proj */
    attn_switch conv_bias;
} attn_mamba_config;

/* A backend of a layer, or the mixer of a layer of a stack. */
typedef struct attn_backend_config {
    attn_backend backend;
    bool trained;        /* with these weights. Default: exact yes, others no; in a stack and for
                            "mamba": yes, since there the checkpoint has no other mixer */
    attn_mix_params mix; /* window (hybrid's too), pattern, stride, summary, features, orthogonal,
                            norm, seed as given, or attn_mix_params_init's defaults; k and
                            projection_length ("seq_len") are 0 when absent. Scale, mask and the
                            arrays are for whoever plans. */
    attn_mamba_config mamba; /* of mamba and hybrid; hybrid has that of the backend "mamba" */
} attn_backend_config;

typedef enum attn_normalization {
    ATTN_NORMALIZATION_UNSAID, /* by the tensors: none without weight, LayerNorm with weight and
                                  bias, RMSNorm with weight only */
    ATTN_NORMALIZATION_NONE,
    ATTN_NORMALIZATION_LAYER,
    ATTN_NORMALIZATION_RMS,
} attn_normalization;

typedef struct attn_norm_config {
    attn_normalization kind;
    double epsilon; /* "norm_eps"; default 1e-5, as in torch.nn.LayerNorm and MambaConfig */
} attn_norm_config;

typedef enum attn_activation {
    ATTN_GELU, /* x Phi(x) with the true normal distribution, as torch.nn.GELU() */
    ATTN_RELU,
    ATTN_SILU,
} attn_activation;

typedef struct attn_feed_forward_config {
    bool present;
    int64_t intermediate_size;  /* 0: from the tensors */
    attn_activation activation; /* default gelu */
    bool gated;                 /* act(gate x) * (up x); default false */
} attn_feed_forward_config;

/* A layer of a stack, before its norm to after its feed-forward. */
typedef struct attn_layer_config {
    attn_backend_config mixer; /* any but hybrid, which in a stack is two layers */
    attn_norm_config norm;
    bool residual; /* default true */
    attn_feed_forward_config feed_forward;
} attn_layer_config;

enum {
    ATTN_LAYERS_MAX = 4096
};

typedef struct attn_model_config {
    attn_model_type type;
    int64_t hidden_size;
    int64_t heads, kv_heads; /* "num_attention_heads", "num_key_value_heads" (default: heads) */
    int64_t head_dim;        /* default hidden_size / heads, once both are known */
    attn_causality causal;   /* "causal": false (the default), true, or "any"; "mamba": ALWAYS */

    /* "layer": in the order of the file, each at most once; null or {} is one with every default.
     * None: whatever the tensors allow. */
    int backend_count;
    attn_backend_config backends[ATTN_BACKENDS];

    /* "stack" and "mamba"; read them with attn_model_config_layer. */
    int64_t layer_count;       /* 0, "mamba" only: count the tensors (attn_weights_layers) */
    int listed;                /* entries in `layers` */
    attn_layer_config *layers; /* owned */
    attn_norm_config final_norm;

    attn_warnings warnings;
} attn_model_config;

/* Read the file, or the text that `what` names. On failure there is nothing to free: ATTN_INVALID
 * (no such file, a key of the wrong type or range), ATTN_MALFORMED (not JSON, too large or too
 * deep), ATTN_UNSUPPORTED (a backend or an option that is not offered) or ATTN_NO_MEMORY; the
 * sentence names file, key path, found and expected, and param is the key path. */
attn_status attn_model_config_read(const char *path, attn_model_config *config, attn_error *error);
attn_status attn_model_config_parse(const void *text, size_t bytes, const char *what,
                                    attn_model_config *config, attn_error *error);
void attn_model_config_free(attn_model_config *config);

/* Layer `index`, from 0 to any count: "mamba" has the same for each. */
const attn_layer_config *attn_model_config_layer(const attn_model_config *config, int index);

/* The backend of that kind of a "layer", or NULL. */
const attn_backend_config *attn_model_config_backend(const attn_model_config *config,
                                                     attn_backend backend);

#endif
