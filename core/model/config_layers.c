/* Backends of a layer, and the layers of a stack. */
#include "model/config_fields.h"

#include <stdlib.h>
#include <string.h>

/* Backends and mixers */

attn_status attn_config_read_rank(const attn_node *object, const char *key, int64_t *rank)
{
    attn_node node = attn_node_member(object, key);
    const char *text = attn_node_string(&node);
    if (!node.value || (text && strcmp(text, "auto") == 0))
        return ATTN_OK;
    if (text)
        return attn_node_refuse(&node, ATTN_INVALID, "\"auto\" or a whole number");
    return attn_node_int(&node, 1, ATTN_CONFIG_SIZE_MOST, rank);
}

attn_backend_config attn_config_backend_default(attn_backend kind, bool trained)
{
    attn_backend_config backend = {.backend = kind, .trained = trained};
    attn_mix_params_init(&backend.mix, 1);
    backend.mix.k = 0;
    return backend;
}

/* Read the keys of the object that stand at `where` into a backend. */
static attn_status read_backend(const attn_node *object, unsigned where,
                                attn_backend_config *backend)
{
    attn_status status = attn_fields_read(object, attn_config_fields, where, backend);
    if (status == ATTN_OK && (where & AT_MAMBA))
        status = attn_config_read_rank(object, "dt_rank", &backend->mamba.dt_rank);
    if (status != ATTN_OK)
        return status;
    attn_node node = attn_node_member(object, "discretization");
    if (backend->mamba.discretization == ATTN_ARTICLE &&
        backend->mamba.variant != ATTN_MAMBA_ARTICLE)
        return attn_node_refuse(&node, ATTN_INVALID,
                                "\"euler\", or \"variant\": \"article\" beside it");
    node = attn_node_member(object, "k");
    if (backend->mix.projection_length && backend->mix.k > backend->mix.projection_length)
        return attn_node_refuse(&node, ATTN_INVALID, "at most seq_len, which is %lld",
                                (long long)backend->mix.projection_length);
    return ATTN_OK;
}

/* "layer" */

static unsigned backend_keys(attn_backend kind, bool mamba_listed)
{
    unsigned where = 1u << kind;
    if (kind == ATTN_BACKEND_PERFORMER)
        where |= AT_LENGTHS;
    /* There is one set of Mamba weights: hybrid describes it only when "mamba" does not. */
    if (kind == ATTN_BACKEND_HYBRID && !mamba_listed)
        where |= AT_MAMBA;
    return where;
}

static attn_status read_listed(const attn_node *list, const attn_node *node,
                               attn_backend_config *backend)
{
    attn_backend kind;
    if (!attn_backend_find(node->key, &kind))
        return attn_node_refuse(node, ATTN_UNSUPPORTED,
                                "the key to be exact, window, sparse, linformer, performer, mamba "
                                "or hybrid");
    *backend = attn_config_backend_default(kind, kind == ATTN_BACKEND_EXACT);
    if (!node->value) /* "window": null is the window with every default */
        return ATTN_OK;
    if (!attn_node_is_object(node))
        return attn_node_refuse(node, ATTN_INVALID, "an object");
    attn_node mamba = attn_node_member(list, "mamba");
    unsigned where = backend_keys(kind, mamba.value != NULL);
    attn_fields_warn(node, attn_config_fields, where);
    return read_backend(node, where, backend);
}

attn_status attn_config_read_backends(const attn_node *root, attn_model_config *config)
{
    attn_node list = attn_node_member(root, "backends");
    if (list.value && !attn_node_is_object(&list))
        return attn_node_refuse(&list, ATTN_INVALID, "an object of backends");
    attn_status status = ATTN_OK;
    attn_node node = attn_node_next(&list, NULL);
    for (; node.key && status == ATTN_OK; node = attn_node_next(&list, &node))
        status = read_listed(&list, &node, &config->backends[config->backend_count++]);
    const attn_backend_config *mamba = attn_model_config_backend(config, ATTN_BACKEND_MAMBA);
    for (int i = 0; mamba && i < config->backend_count; i++)
        if (config->backends[i].backend == ATTN_BACKEND_HYBRID)
            config->backends[i].mamba = mamba->mamba;
    return status;
}

/* "stack" */

static attn_status read_feed_forward(const attn_node *layer, attn_feed_forward_config *forward)
{
    attn_node node = attn_node_member(layer, "feed_forward");
    if (!node.value)
        return ATTN_OK;
    if (!attn_node_is_object(&node))
        return attn_node_refuse(&node, ATTN_INVALID, "an object");
    forward->present = true;
    attn_fields_warn(&node, attn_config_fields, AT_FEED_FORWARD);
    return attn_fields_read(&node, attn_config_fields, AT_FEED_FORWARD, forward);
}

static attn_status read_layer(const attn_node *node, attn_layer_config *layer)
{
    if (!attn_node_is_object(node))
        return attn_node_refuse(node, ATTN_INVALID, "an object with a \"mixer\"");
    int kind = 0;
    attn_node mixer = attn_node_member(node, "mixer");
    attn_status status = attn_node_choice(&mixer, attn_backend_names, &kind);
    if (status != ATTN_OK)
        return status;
    if (kind == ATTN_BACKEND_HYBRID)
        return attn_node_refuse(&mixer, ATTN_UNSUPPORTED,
                                "its two layers, \"mamba\" and \"window\", one after the other");
    layer->mixer = attn_config_backend_default((attn_backend)kind, true);
    unsigned where = 1u << kind | (kind == ATTN_BACKEND_PERFORMER ? AT_LAYER_LENGTHS : 0);
    attn_fields_warn(node, attn_config_fields, where | AT_STACK_LAYER);
    status = read_backend(node, where, &layer->mixer);
    if (status == ATTN_OK)
        status = attn_fields_read(node, attn_config_fields, AT_STACK_LAYER, layer);
    if (status == ATTN_OK)
        status = read_feed_forward(node, &layer->feed_forward);
    return status;
}

attn_status attn_config_list_layers(attn_model_config *config, size_t count, attn_error *error)
{
    config->layers = calloc(count, sizeof *config->layers);
    if (!config->layers)
        return attn_error_set(error, ATTN_NO_MEMORY, "layers", "no memory for %zu layers", count);
    config->listed = (int)count;
    return ATTN_OK;
}

attn_status attn_config_read_stack(const attn_node *root, attn_model_config *config)
{
    attn_layer_config defaults = {.norm.epsilon = ATTN_CONFIG_EPSILON, .residual = true};
    attn_status status = attn_fields_read(root, attn_config_fields, AT_DEFAULTS, &defaults);
    attn_node list = attn_node_member(root, "layers");
    size_t count = attn_node_count(&list);
    if (status == ATTN_OK && (!attn_node_is_array(&list) || count < 1 || count > ATTN_LAYERS_MAX))
        status =
            attn_node_refuse(&list, ATTN_INVALID, "an array of 1 to %d layers", ATTN_LAYERS_MAX);
    if (status == ATTN_OK)
        status = attn_config_list_layers(config, count, root->document->error);
    for (size_t i = 0; i < count && status == ATTN_OK; i++) {
        attn_node node = attn_node_element(&list, i);
        config->layers[i] = defaults;
        status = read_layer(&node, &config->layers[i]);
    }
    config->layer_count = (int64_t)count;
    config->final_norm.epsilon = defaults.norm.epsilon;
    return status;
}
