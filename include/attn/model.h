/* A loaded model: hidden states in, hidden states out, by one of the backends its weights allow.
 *
 * A model is a folder: config.json, model.safetensors or its shards, and LoRA adapters under
 * adapters/<name>. Once open it never changes, so that any thread may plan and run it; its weights
 * stay mapped (core/model/weights.h says what that asks of whoever replaces the files). */
#ifndef ATTN_MODEL_H
#define ATTN_MODEL_H

#include "attn/program.h"

typedef struct attn_model attn_model;

/* Load the folder. `name` is what sentences call it and is copied. NULL with a sentence that names
 * file, key or tensor, what was found and what was expected. Reads every weight once. */
attn_model *attn_model_open(const char *folder, const char *name, attn_error *error);

/* After the last program made from it is closed. NULL is fine. */
void attn_model_close(attn_model *model);

/* Whether a model lets a query see later positions. */
typedef enum attn_causality {
    ATTN_CAUSAL_NEVER,
    ATTN_CAUSAL_ALWAYS,
    ATTN_CAUSAL_EITHER, /* the request says; never unless it does */
} attn_causality;

/* A way to run the model. */
typedef struct attn_model_backend {
    const char *name;    /* "exact", "window", ..., "mamba", "hybrid"; static */
    unsigned traits;     /* attn/mixer.h */
    bool trained;        /* the weights were trained with it */
    attn_mix_params mix; /* its parameters but for scale and mask, which a request may override */
} attn_model_backend;

typedef struct attn_model_info {
    const char *name;
    const char *type; /* "layer", "stack" or "mamba"; static */
    int64_t hidden;
    int64_t layers;
    int64_t heads, kv_heads, head_dim; /* 0 when nothing attends */
    attn_causality causal;
    int backend_count; /* 1 or more, in the order of the configuration */
    const attn_model_backend *backends;
    int adapter_count;
    const char *const *adapters; /* names, sorted */
    size_t mapped_bytes;         /* of files */
    size_t owned_bytes;          /* of copies on the heap */
    int warning_count;
    const char *const *warnings; /* what was passed over while loading */
} attn_model_info;

/* Borrowed from the model. */
const attn_model_info *attn_model_info_of(const attn_model *model);

/* Index of the backend, or of the adapter, of that name; -1 when there is none. */
int attn_model_find_backend(const attn_model *model, const char *name);
int attn_model_find_adapter(const attn_model *model, const char *name);

/* One run. */
typedef struct attn_model_call {
    int backend; /* index */
    int adapter; /* index; -1: none */
    int64_t batch, n;
    attn_mix_params mix; /* that of the backend, with what the request overrides. Its mask
                            (borrowed) says which positions of which batch row are valid, and
                            whether causal; its scale is read when scale_given */
    bool scale_given;
    attn_sampling sampling;
} attn_model_call;

/* The program that reads ATTN_ARRAY_INPUT (batch, n, hidden) and writes ATTN_ARRAY_OUT, of the same
 * shape; rows at or beyond a length are 0. The masks stay borrowed, and so does the model.
 * ATTN_UNSUPPORTED and ATTN_INVALID explain themselves. Where exact attention with the same
 * projections is not defined (mamba, hybrid, stacks) nothing is sampled. */
attn_status attn_model_plan(attn_program **program, const attn_model *model,
                            const attn_machine *machine, const attn_model_call *call,
                            attn_error *error);

#endif
