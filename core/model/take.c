/* Taking tensors out of a checkpoint by the names that people's checkpoints have. */
#include "model/loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES = 64,
};

struct attn_block {
    attn_block *next;
    _Alignas(ATTN_ALIGN) unsigned char bytes[];
};

void *attn_model_block(attn_model *model, size_t bytes, attn_error *error)
{
    size_t whole = attn_arena_round(sizeof(attn_block) + bytes);
    attn_block *block = aligned_alloc(ATTN_ALIGN, whole);
    if (!block) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for %zu bytes of a model", bytes);
        return NULL;
    }
    memset(block, 0, whole);
    block->next = model->blocks;
    model->blocks = block;
    model->block_bytes += whole;
    return block->bytes;
}

void attn_model_free_blocks(attn_model *model)
{
    while (model->blocks) {
        attn_block *next = model->blocks->next;
        free(model->blocks);
        model->blocks = next;
    }
}

const char *attn_model_text(attn_model *model, const char *head, const char *tail,
                            attn_error *error)
{
    size_t bytes = strlen(head) + strlen(tail) + 1;
    char *text = attn_model_block(model, bytes, error);
    if (text)
        snprintf(text, bytes, "%s%s", head, tail);
    return text;
}

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

attn_status attn_linear_take(attn_model *model, const char *prefix, const char *name, int64_t rows,
                             int64_t columns, attn_linear *linear, attn_error *error)
{
    char tensor[NAME_BYTES];
    snprintf(tensor, sizeof tensor, "%s.weight", name);
    *linear = (attn_linear){.prefix = prefix, .name = name};
    attn_status status =
        attn_weights_matrix(model->weights, prefix, tensor, rows, columns, &linear->weight, error);
    if (status == ATTN_OK)
        status = note_module(model, prefix, name, &linear->weight, error);
    return status;
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
