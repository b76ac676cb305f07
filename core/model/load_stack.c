/* A model of layers one after another: a stack that config.json lists, or Mamba as transformers
 * saves it. Both have their tensors under "layers.N."; transformers puts "backbone." before that.
 */
#include "model/loaded.h"

#include <stdio.h>

enum {
    BASE_BYTES = 48
};

/* "backbone." for a checkpoint that has it, else "". */
static const char *root_of(const attn_model *model)
{
    return attn_weights_layers(model->weights, "backbone.layers.", 1) ? "backbone." : "";
}

static attn_status take_mixer(attn_model *model, const char *base, const attn_layer_config *config,
                              attn_layer *layer, attn_error *error)
{
    layer->backend = config->mixer.backend;
    layer->mix = config->mixer.mix;
    layer->recurs = layer->backend == ATTN_BACKEND_MAMBA;
    layer->attends = !layer->recurs;
    if (layer->recurs)
        return attn_mamba_take(model, base, &config->mixer.mamba, &layer->mamba, error);
    attn_status status = attn_attention_take(model, base, &layer->attention, error);
    if (status == ATTN_OK && layer->backend == ATTN_BACKEND_LINFORMER)
        status = attn_projection_take(model, base, &layer->mix, &layer->attention, error);
    return status;
}

static attn_status take_norm(attn_model *model, const char *base, const char *name,
                             const attn_norm_config *config, attn_row_norm *norm, attn_error *error)
{
    const char *prefix = attn_model_text(model, base, name, error);
    return prefix ? attn_row_norm_take(model, prefix, config, norm, error) : ATTN_NO_MEMORY;
}

static attn_status take_layer(attn_model *model, const char *base, const attn_layer_config *config,
                              attn_layer *layer, attn_error *error)
{
    layer->residual = config->residual;
    layer->feeds = config->feed_forward.present;
    attn_status status = take_mixer(model, base, config, layer, error);
    if (status == ATTN_OK)
        status = take_norm(model, base, "norm.", &config->norm, &layer->norm, error);
    if (status == ATTN_OK && layer->feeds)
        status = take_norm(model, base, "ffn_norm.", &config->norm, &layer->feed_norm, error);
    if (status == ATTN_OK && layer->feeds)
        status =
            attn_feed_forward_take(model, base, &config->feed_forward, &layer->feed_forward, error);
    return status;
}

static attn_status check_causal(const attn_model *model, int index, attn_error *error)
{
    const attn_mixer *mixer = attn_mixer_find(attn_backend_names[model->layers[index].backend]);
    if (!mixer || (mixer->traits & ATTN_CAUSAL) || model->config.causal == ATTN_CAUSAL_NEVER)
        return ATTN_OK;
    return attn_error_set(error, ATTN_UNSUPPORTED, "causal",
                          "config.json: layer %d is %s, which has no causal form, in a model that "
                          "is causal; expected \"causal\": false",
                          index, mixer->name);
}

/* What to call the whole: the one mixer that all layers have, else hybrid. */
static attn_backend common_backend(const attn_model *model)
{
    for (int i = 1; i < model->layer_count; i++)
        if (model->layers[i].backend != model->layers[0].backend)
            return ATTN_BACKEND_HYBRID;
    return model->layers[0].backend;
}

/* What all of its layers can, and that it recurs if any does. */
static unsigned common_traits(const attn_model *model)
{
    unsigned all = ~0U, recurrent = 0;
    for (int i = 0; i < model->layer_count; i++) {
        unsigned traits = attn_backend_traits(model->layers[i].backend);
        all &= traits;
        recurrent |= traits & (ATTN_RECURRENT | ATTN_NEEDS_WEIGHTS);
    }
    return all | recurrent;
}

static bool all_trained(const attn_model *model)
{
    for (int i = 0; i < model->layer_count; i++)
        if (!attn_model_config_layer(&model->config, i)->mixer.trained)
            return false;
    return true;
}

static attn_status count_layers(attn_model *model, const char *root, attn_error *error)
{
    int64_t count = model->config.layer_count;
    char base[BASE_BYTES];
    snprintf(base, sizeof base, "%slayers.", root);
    if (count == 0)
        count = attn_weights_layers(model->weights, base, ATTN_LAYERS_MAX);
    if (count == 0)
        return attn_error_set(error, ATTN_INVALID, "num_hidden_layers",
                              "no tensor is named %s0.…, and config.json does not say how many "
                              "layers there are",
                              base);
    model->layers = attn_model_block(model, (size_t)count * sizeof *model->layers, error);
    model->layer_count = model->layers ? (int)count : 0;
    return model->layers ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status take_final_norm(attn_model *model, const char *root, attn_error *error)
{
    static const char *const names[] = {"norm_f.", "final_norm.", NULL};
    const char *prefix = attn_model_prefix(model, root, names, "weight", error);
    if (!prefix)
        return ATTN_NO_MEMORY;
    return attn_row_norm_take(model, prefix, &model->config.final_norm, &model->final_norm, error);
}

attn_status attn_stack_load(attn_model *model, attn_error *error)
{
    const char *root = root_of(model);
    attn_status status = count_layers(model, root, error);
    for (int i = 0; i < model->layer_count && status == ATTN_OK; i++) {
        char base[BASE_BYTES];
        snprintf(base, sizeof base, "%slayers.%d.", root, i);
        status = take_layer(model, base, attn_model_config_layer(&model->config, i),
                            &model->layers[i], error);
        if (status == ATTN_OK)
            status = check_causal(model, i, error);
    }
    if (status == ATTN_OK)
        status = take_final_norm(model, root, error);
    if (status != ATTN_OK)
        return status;
    const attn_layer *first = model->layers;
    attn_backend_describe(&model->backends[0], common_backend(model), all_trained(model),
                          &first->mix, &first->attention);
    model->backends[0].traits = common_traits(model);
    model->info.backend_count = 1;
    return ATTN_OK;
}
