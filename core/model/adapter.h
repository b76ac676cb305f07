/* A LoRA adapter as peft saves it: adapter_config.json and adapter_model.safetensors with
 * "base_model.model.<module>.lora_A.weight" (r, in) and "...lora_B.weight" (out, r). A module's
 * weight W (out, in) then acts as W + scale B A, where scale is lora_alpha / r (Hu et al. 2021,
 * section 4.1) or, with "use_rslora", lora_alpha / sqrt(r) (Kalajdzievski 2023).
 *
 * What would change the answer and is not done is refused in a sentence: other peft types, DoRA,
 * biases, fan_in_fan_out, modules_to_save, initialisations that change the base weights.
 * "rank_pattern" and "alpha_pattern" are read when their keys are plain names, which hold for the
 * modules that end in them; the first that fits counts, as in peft. */
#ifndef CORE_MODEL_ADAPTER_H
#define CORE_MODEL_ADAPTER_H

#include "attn/status.h"
#include "model/matrix.h"
#include "model/warnings.h"

typedef struct attn_adapter attn_adapter;

/* One adapted module; borrowed from the adapter. */
typedef struct attn_lora {
    const char *module; /* "layers.0.q_proj": the tensor it adapts, without ".weight" */
    attn_matrix a;      /* (r, in) */
    attn_matrix b;      /* (out, r) */
    float scale;
} attn_lora;

/* A module that the model has and an adapter may adapt. */
typedef struct attn_adaptable {
    const char *module;    /* as in the checkpoint, without ".weight" */
    int64_t rows, columns; /* of its weight: out, in */
} attn_adaptable;

/* Open the folder. NULL with ATTN_INVALID, ATTN_MALFORMED, ATTN_UNSUPPORTED or ATTN_NO_MEMORY; the
 * sentence names the file and the key or tensor, found and expected. */
attn_adapter *attn_adapter_open(const char *folder, attn_error *error);
void attn_adapter_close(attn_adapter *adapter);

/* Refuse the adapter (ATTN_INVALID) unless every module it adapts is among `count` of the model's
 * and of its shape, and every name of "target_modules", when it is a list, ends one of those that
 * it adapts. The sentence names the wrong one and what the model has. */
attn_status attn_adapter_check(const attn_adapter *adapter, const attn_adaptable *modules,
                               int count, attn_error *error);

/* In the order of the module names. */
int attn_adapter_count(const attn_adapter *adapter);
const attn_lora *attn_adapter_at(const attn_adapter *adapter, int index);

/* The one of that module (prefix and name joined), or NULL. */
const attn_lora *attn_adapter_find(const attn_adapter *adapter, const char *prefix,
                                   const char *module);

size_t attn_adapter_mapped_bytes(const attn_adapter *adapter);
size_t attn_adapter_owned_bytes(const attn_adapter *adapter);
const attn_warnings *attn_adapter_warnings(const attn_adapter *adapter);

#endif
