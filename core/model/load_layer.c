/* A model of one layer: an attention layer, a Mamba block, or both, and the backends that they
 * serve. */
#include "model/loaded.h"


void attn_backend_describe(attn_model_backend *to, attn_backend backend, bool trained,
                           const attn_mix_params *mix, const attn_attention *attention)
{
    *to = (attn_model_backend){.name = attn_backend_names[backend],
                               .traits = attn_backend_traits(backend),
                               .trained = trained,
                               .mix = *mix};
    if (backend != ATTN_BACKEND_LINFORMER)
        return;
    attn_mix_params defaults;
    attn_mix_params_init(&defaults, 1);
    to->mix.k = mix->k ? mix->k : defaults.k;
    to->mix.projection_length = 0;
    if (attention->e) {
        to->mix.projection = ATTN_GIVEN;
        to->mix.k = attention->projected;
        to->mix.projection_length = attention->length;
    }
}

/* Whether the tensors that were taken can serve it. */
static bool serves(const attn_layer *layer, attn_backend backend)
{
    unsigned parts = (layer->attends ? ATTN_PART_ATTENTION : 0u) |
                     (layer->attention.e ? ATTN_PART_PROJECTION : 0u) |
                     (layer->recurs ? ATTN_PART_MAMBA : 0u);
    return (attn_backend_parts(backend) & ~parts) == 0;
}

static bool lists(const attn_model_config *config, attn_backend backend)
{
    return attn_model_config_backend(config, backend) != NULL;
}

/* What the configuration says of the Mamba weights, be it for mamba or for hybrid. */
static const attn_mamba_config *mamba_config(const attn_model_config *config)
{
    static const attn_mamba_config nothing = {0};
    const attn_backend_config *backend = attn_model_config_backend(config, ATTN_BACKEND_MAMBA);
    backend = backend ? backend : attn_model_config_backend(config, ATTN_BACKEND_HYBRID);
    return backend ? &backend->mamba : &nothing;
}

static bool wants_attention(const attn_model *model)
{
    const attn_model_config *config = &model->config;
    for (int i = 0; i < config->backend_count; i++)
        if (config->backends[i].backend != ATTN_BACKEND_MAMBA)
            return true;
    return config->backend_count == 0 && attn_attention_found(model, "");
}

static bool wants_mamba(const attn_model *model)
{
    const attn_model_config *config = &model->config;
    return lists(config, ATTN_BACKEND_MAMBA) || lists(config, ATTN_BACKEND_HYBRID) ||
           (config->backend_count == 0 && attn_mamba_found(model, ""));
}

/* Without matrices of its own a layer may still be asked for linformer: then it pools. */
static attn_status take_projection(attn_model *model, attn_layer *layer, attn_error *error)
{
    static const attn_mix_params whatever = {0};
    const attn_backend_config *said =
        attn_model_config_backend(&model->config, ATTN_BACKEND_LINFORMER);
    bool unwanted = !said && model->config.backend_count;
    if (unwanted || (!attn_projection_found(model, "") && !(said && said->trained)))
        return ATTN_OK;
    return attn_projection_take(model, "", said ? &said->mix : &whatever, &layer->attention, error);
}

/* Those listed, in that order; else all that the tensors serve. */
static attn_status fill_backends(attn_model *model, attn_error *error)
{
    const attn_model_config *config = &model->config;
    const attn_layer *layer = model->layers;
    attn_mix_params defaults;
    attn_mix_params_init(&defaults, 1);
    int count = 0;
    for (int i = 0; i < config->backend_count; i++) {
        const attn_backend_config *b = &config->backends[i];
        attn_backend_describe(&model->backends[count++], b->backend, b->trained, &b->mix,
                              &layer->attention);
    }
    for (int b = 0; b < ATTN_BACKENDS && config->backend_count == 0; b++)
        if (serves(layer, (attn_backend)b))
            attn_backend_describe(&model->backends[count++], (attn_backend)b,
                                  b == ATTN_BACKEND_EXACT, &defaults, &layer->attention);
    model->info.backend_count = count;
    if (count)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "backends",
                          "the folder holds neither an attention layer (q_proj.weight, ...) nor a "
                          "Mamba block (in_proj.weight, ...)");
}

attn_status attn_layer_load(attn_model *model, attn_error *error)
{
    attn_layer *layer = attn_model_block(model, sizeof *layer, error);
    if (!layer)
        return ATTN_NO_MEMORY;
    model->layers = layer;
    model->layer_count = 1;
    layer->attends = wants_attention(model);
    layer->recurs = wants_mamba(model);
    attn_status status = ATTN_OK;
    if (layer->attends)
        status = attn_attention_take(model, "", &layer->attention, error);
    if (status == ATTN_OK && layer->attends)
        status = take_projection(model, layer, error);
    if (status == ATTN_OK && layer->recurs)
        status = attn_mamba_take(model, "", mamba_config(&model->config), &layer->mamba, error);
    if (status == ATTN_OK)
        status = fill_backends(model, error);
    return status;
}
