/* Opening a model folder, and what can be asked of the result. */
#include "model/file.h"
#include "model/loaded.h"

#include <stdlib.h>
#include <string.h>

static const char *const type_names[] = {
    [ATTN_MODEL_LAYER] = "layer", [ATTN_MODEL_STACK] = "stack", [ATTN_MODEL_MAMBA] = "mamba"};

static attn_status load(attn_model *model, const char *folder, attn_error *error)
{
    attn_path path;
    attn_status status = attn_path_join(path, folder, "config.json", "", error);
    if (status == ATTN_OK)
        status = attn_model_config_read(path, &model->config, error);
    if (status != ATTN_OK)
        return status;
    model->hidden = model->config.hidden_size;
    model->weights = attn_weights_open(folder, "model", error);
    if (!model->weights)
        return error->status;
    status = model->config.type == ATTN_MODEL_LAYER ? attn_layer_load(model, error)
                                                    : attn_stack_load(model, error);
    if (status == ATTN_OK)
        status = attn_adapters_load(model, folder, error);
    return status;
}

static attn_status list_warnings(attn_model *model, attn_error *error)
{
    int count = model->config.warnings.count;
    for (int i = 0; i < model->adapter_count; i++)
        count += attn_adapter_warnings(model->adapters[i])->count;
    const char **list = attn_model_block(model, (size_t)(count + 1) * sizeof *list, error);
    if (!list)
        return ATTN_NO_MEMORY;
    model->info.warnings = list;
    for (int i = 0; i < model->config.warnings.count; i++)
        list[model->info.warning_count++] = model->config.warnings.text[i];
    for (int i = 0; i < model->adapter_count; i++) {
        const attn_warnings *warnings = attn_adapter_warnings(model->adapters[i]);
        for (int w = 0; w < warnings->count; w++)
            list[model->info.warning_count++] = warnings->text[w];
    }
    return ATTN_OK;
}

static attn_status fill_info(attn_model *model, const char *name, attn_error *error)
{
    attn_model_info *info = &model->info;
    info->name = attn_model_text(model, name, "", error);
    attn_status status = info->name ? list_warnings(model, error) : ATTN_NO_MEMORY;
    info->type = type_names[model->config.type];
    info->hidden = model->hidden;
    info->layers = model->layer_count;
    for (int i = 0; i < model->layer_count && !info->heads; i++) {
        info->heads = model->layers[i].attention.heads;
        info->kv_heads = model->layers[i].attention.kv_heads;
        info->head_dim = model->layers[i].attention.head_dim;
    }
    info->causal = model->config.causal;
    info->backends = model->backends;
    info->adapter_count = model->adapter_count;
    info->adapters = model->adapter_names;
    info->mapped_bytes = attn_weights_mapped_bytes(model->weights);
    info->owned_bytes = attn_weights_owned_bytes(model->weights) + model->block_bytes;
    for (int i = 0; i < model->adapter_count; i++) {
        info->mapped_bytes += attn_adapter_mapped_bytes(model->adapters[i]);
        info->owned_bytes += attn_adapter_owned_bytes(model->adapters[i]);
    }
    return status;
}

attn_model *attn_model_open(const char *folder, const char *name, attn_error *error)
{
    attn_error unwanted = {0};
    error = error ? error : &unwanted;
    attn_model *model = calloc(1, sizeof *model);
    if (!model) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a model");
        return NULL;
    }
    attn_status status = load(model, folder, error);
    if (status == ATTN_OK)
        status = fill_info(model, name, error);
    if (status == ATTN_OK)
        return model;
    attn_model_close(model);
    return NULL;
}

void attn_model_close(attn_model *model)
{
    if (!model)
        return;
    for (int i = 0; model->adapters && i < model->adapter_count; i++)
        attn_adapter_close(model->adapters[i]);
    free(model->modules);
    attn_weights_close(model->weights);
    attn_model_config_free(&model->config);
    attn_model_free_blocks(model);
    free(model);
}

const attn_model_info *attn_model_info_of(const attn_model *model)
{
    return &model->info;
}

int attn_model_find_backend(const attn_model *model, const char *name)
{
    for (int i = 0; i < model->info.backend_count; i++)
        if (strcmp(model->backends[i].name, name) == 0)
            return i;
    return -1;
}

int attn_model_find_adapter(const attn_model *model, const char *name)
{
    for (int i = 0; i < model->adapter_count; i++)
        if (strcmp(model->adapter_names[i], name) == 0)
            return i;
    return -1;
}
