/* The whole chunks of a sequence are one part of a program, repeated; what is left is a chunk of
 * its own. */
#include "model/chunks.h"

static attn_status add_whole(attn_program *program, const attn_site *site, int64_t most,
                             attn_chunk_add *add, const void *layer, attn_error *error)
{
    attn_program *chunk = attn_program_open_part(program, error);
    if (!chunk)
        return ATTN_NO_MEMORY;
    attn_status status = add(chunk, layer, 0, most, error);
    if (status == ATTN_OK)
        return attn_program_repeat(program, chunk, site->n / most, most, site->hidden, error);
    attn_program_close(chunk);
    return status;
}

attn_status attn_chunks_add(attn_program *program, const attn_site *site, int64_t most,
                            attn_chunk_add *add, const void *layer, attn_error *error)
{
    int64_t rest = site->n % most;
    size_t mark = attn_program_mark(program);
    attn_status status = ATTN_OK;
    if (site->n >= most)
        status = add_whole(program, site, most, add, layer, error);
    if (status == ATTN_OK && rest > 0)
        status = add(program, layer, site->n - rest, rest, error);
    attn_program_rewind(program, mark);
    return status;
}
