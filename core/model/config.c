/* The top of config.json, and what Hugging Face calls "mamba". */
#include "model/config_fields.h"

#include <stdlib.h>
#include <string.h>

static const char *const types[] = {"layer", "stack", "mamba", NULL};

/* "mamba" */

static attn_status read_mamba(const attn_node *root, attn_model_config *config)
{
    attn_status status = attn_config_list_layers(config, 1, root->document->error);
    if (status != ATTN_OK)
        return status;
    attn_layer_config *layer = config->layers;
    *layer = (attn_layer_config){.mixer = attn_config_backend_default(ATTN_BACKEND_MAMBA, true),
                                 .norm = {ATTN_NORMALIZATION_RMS, ATTN_CONFIG_EPSILON},
                                 .residual = true};
    status = attn_fields_read(root, attn_config_fields, AT_HF_LAYER, layer);
    if (status == ATTN_OK)
        status = attn_config_read_rank(root, "time_step_rank", &layer->mixer.mamba.dt_rank);
    attn_node activation = attn_node_member(root, "hidden_act");
    const char *name = attn_node_string(&activation);
    if (status == ATTN_OK && activation.value && (!name || strcmp(name, "silu") != 0))
        status = attn_node_refuse(&activation, ATTN_UNSUPPORTED, "\"silu\"");
    config->final_norm = layer->norm;
    config->causal = ATTN_CAUSAL_ALWAYS;
    return status;
}

/* The top */

static attn_status read_causal(const attn_node *root, attn_causality *causal)
{
    attn_node node = attn_node_member(root, "causal");
    const char *text = attn_node_string(&node);
    if (attn_node_is_bool(&node, true))
        *causal = ATTN_CAUSAL_ALWAYS;
    else if (text && strcmp(text, "any") == 0)
        *causal = ATTN_CAUSAL_EITHER;
    else if (node.value && !attn_node_is_bool(&node, false))
        return attn_node_refuse(&node, ATTN_INVALID, "true, false or \"any\"");
    return ATTN_OK;
}

/* Fill in what follows from other sizes, and hold them against each other. */
static attn_status read_heads(const attn_node *root, attn_model_config *config)
{
    attn_node kv_heads = attn_node_member(root, "num_key_value_heads");
    attn_node hidden = attn_node_member(root, "hidden_size");
    if (config->kv_heads && config->heads % config->kv_heads != 0)
        return attn_node_refuse(&kv_heads, ATTN_INVALID,
                                "a divisor of num_attention_heads, which is %lld",
                                (long long)config->heads);
    if (!config->kv_heads)
        config->kv_heads = config->heads;
    if (config->head_dim || !config->heads || !config->hidden_size)
        return ATTN_OK;
    if (config->hidden_size % config->heads != 0)
        return attn_node_refuse(&hidden, ATTN_INVALID,
                                "a multiple of num_attention_heads, which is %lld, or a head_dim",
                                (long long)config->heads);
    config->head_dim = config->hidden_size / config->heads;
    return ATTN_OK;
}

static attn_status read_type(const attn_node *root, attn_model_config *config)
{
    attn_node node = attn_node_member(root, "model_type");
    int type = 0;
    attn_status status = attn_node_choice(&node, types, &type);
    config->type = (attn_model_type)type;
    return status;
}

static attn_status read_document(const attn_node *root, attn_model_config *config)
{
    static const unsigned keys[] = {[ATTN_MODEL_LAYER] = AT_LAYER,
                                    [ATTN_MODEL_STACK] = AT_STACK,
                                    [ATTN_MODEL_MAMBA] = AT_HF_TOP};
    static const unsigned more[] = {
        [ATTN_MODEL_LAYER] = 0, [ATTN_MODEL_STACK] = AT_DEFAULTS, [ATTN_MODEL_MAMBA] = AT_HF_LAYER};
    static attn_status (*const read[])(const attn_node *, attn_model_config *) = {
        attn_config_read_backends, attn_config_read_stack, read_mamba};
    attn_status status = read_type(root, config);
    if (status != ATTN_OK)
        return status;
    attn_fields_warn(root, attn_config_fields, keys[config->type] | more[config->type]);
    status = attn_fields_read(root, attn_config_fields, keys[config->type], config);
    if (status == ATTN_OK && config->type != ATTN_MODEL_MAMBA)
        status = read_causal(root, &config->causal);
    if (status == ATTN_OK && config->type != ATTN_MODEL_MAMBA)
        status = read_heads(root, config);
    if (status == ATTN_OK)
        status = read[config->type](root, config);
    return status;
}

static attn_status read_and_close(attn_document *document, attn_model_config *config)
{
    attn_node root = attn_document_root(document);
    attn_status status = read_document(&root, config);
    attn_document_close(document);
    if (status != ATTN_OK)
        attn_model_config_free(config);
    return status;
}

attn_status attn_model_config_parse(const void *text, size_t bytes, const char *what,
                                    attn_model_config *config, attn_error *error)
{
    attn_document document;
    *config = (attn_model_config){0};
    attn_status status =
        attn_document_parse(&document, text, bytes, what, &config->warnings, error);
    return status == ATTN_OK ? read_and_close(&document, config) : status;
}

attn_status attn_model_config_read(const char *path, attn_model_config *config, attn_error *error)
{
    attn_document document;
    *config = (attn_model_config){0};
    attn_status status =
        attn_document_read(&document, path, ATTN_DOCUMENT_MAX, &config->warnings, error);
    return status == ATTN_OK ? read_and_close(&document, config) : status;
}

void attn_model_config_free(attn_model_config *config)
{
    free(config->layers);
    config->layers = NULL;
}

const attn_layer_config *attn_model_config_layer(const attn_model_config *config, int index)
{
    return &config->layers[index < config->listed ? index : config->listed - 1];
}

const attn_backend_config *attn_model_config_backend(const attn_model_config *config,
                                                     attn_backend backend)
{
    for (int i = 0; i < config->backend_count; i++)
        if (config->backends[i].backend == backend)
            return &config->backends[i];
    return NULL;
}
