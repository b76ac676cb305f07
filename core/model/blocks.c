/* Memory that lives as long as a model: given back all at once. */
#include "model/loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
