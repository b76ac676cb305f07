/* Taking tensors out of a checkpoint by the names that people's checkpoints have. */
#include "model/loaded.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    NAME_BYTES = 64,
};

/* Is there a tensor `<base><sub><name>`? */
static bool found_under(const attn_model *model, const char *base, const char *sub,
                        const char *name)
{
    char rest[NAME_BYTES];
    snprintf(rest, sizeof rest, "%s%s", sub, name);
    return attn_weights_find(model->weights, base, rest) != NULL;
}

static const char *find_sub(const attn_model *model, const char *base, const char *const *subs,
                            const char *name)
{
    for (; *subs; subs++)
        if (found_under(model, base, *subs, name))
            return *subs;
    return NULL;
}

bool attn_model_finds(const attn_model *model, const char *base, const char *const *subs,
                      const char *name)
{
    return find_sub(model, base, subs, name) != NULL;
}

const char *attn_model_prefix(attn_model *model, const char *base, const char *const *subs,
                              const char *name, attn_error *error)
{
    const char *sub = find_sub(model, base, subs, name);
    while (!sub && subs[1])
        subs++;
    return attn_model_text(model, base, sub ? sub : *subs, error);
}

/* Note the module, with a name that adapters can be held against. */
static attn_status note_module(attn_model *model, const char *prefix, const char *name,
                               const attn_matrix *weight, attn_error *error)
{
    if (model->module_count == model->module_room) {
        int room = model->module_room ? 2 * model->module_room : 16;
        attn_adaptable *modules = realloc(model->modules, (size_t)room * sizeof *modules);
        if (!modules)
            return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a model's modules");
        model->modules = modules;
        model->module_room = room;
    }
    const char *module = attn_model_text(model, prefix, name, error);
    if (!module)
        return ATTN_NO_MEMORY;
    model->modules[model->module_count++] =
        (attn_adaptable){.module = module, .rows = weight->rows, .columns = weight->columns};
    return ATTN_OK;
}

attn_status attn_vector_take(attn_model *model, const char *prefix, const char *name, int64_t count,
                             attn_switch wanted, const float **to, attn_error *error)
{
    *to = NULL;
    if (wanted == ATTN_NO)
        return ATTN_OK;
    if (wanted == ATTN_UNSAID && !attn_weights_find(model->weights, prefix, name))
        return ATTN_OK;
    *to = attn_weights_floats(model->weights, prefix, name, ATTN_DIMS(count), error);
    return *to ? ATTN_OK : error->status;
}

attn_status attn_linear_take(attn_model *model, const char *prefix, const char *name, int64_t rows,
                             int64_t columns, attn_switch bias, attn_linear *linear,
                             attn_error *error)
{
    char tensor[NAME_BYTES];
    *linear = (attn_linear){.prefix = prefix, .name = name};
    snprintf(tensor, sizeof tensor, "%s.weight", name);
    attn_status status =
        attn_weights_matrix(model->weights, prefix, tensor, rows, columns, &linear->weight, error);
    if (status == ATTN_OK)
        status = note_module(model, prefix, name, &linear->weight, error);
    snprintf(tensor, sizeof tensor, "%s.bias", name);
    if (status == ATTN_OK)
        status = attn_vector_take(model, prefix, tensor, linear->weight.rows, bias, &linear->bias,
                                  error);
    return status;
}

attn_status attn_row_norm_take(attn_model *model, const char *prefix,
                               const attn_norm_config *config, attn_row_norm *norm,
                               attn_error *error)
{
    bool demanded =
        config->kind == ATTN_NORMALIZATION_LAYER || config->kind == ATTN_NORMALIZATION_RMS;
    *norm = (attn_row_norm){.kind = config->kind, .epsilon = config->epsilon};
    if (config->kind == ATTN_NORMALIZATION_NONE)
        return ATTN_OK;
    attn_status status =
        attn_vector_take(model, prefix, "weight", model->hidden ? model->hidden : ATTN_ANY,
                         demanded ? ATTN_YES : ATTN_UNSAID, &norm->weight, error);
    if (status == ATTN_OK && config->kind != ATTN_NORMALIZATION_RMS)
        status = attn_vector_take(model, prefix, "bias", model->hidden ? model->hidden : ATTN_ANY,
                                  ATTN_UNSAID, &norm->bias, error);
    if (config->kind == ATTN_NORMALIZATION_UNSAID)
        norm->kind = !norm->weight ? ATTN_NORMALIZATION_NONE
                     : norm->bias  ? ATTN_NORMALIZATION_LAYER
                                   : ATTN_NORMALIZATION_RMS;
    return status;
}
