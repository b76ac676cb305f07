/* Layers that work through a sequence a chunk of positions at a time, so that neither workspace nor
 * program grows with it. */
#ifndef CORE_MODEL_CHUNKS_H
#define CORE_MODEL_CHUNKS_H

#include "model/site.h"
#include "program/step.h"

/* Append the steps of `count` positions from `from` on. */
typedef attn_status attn_chunk_add(attn_program *program, const void *layer, int64_t from,
                                   int64_t count, attn_error *error);

/* Append `add` for the site's whole sequence, `most` positions at a time; its hidden states lie in
 * INPUT or OUT. What `add` takes of the workspace is given back. */
attn_status attn_chunks_add(attn_program *program, const attn_site *site, int64_t most,
                            attn_chunk_add *add, const void *layer, attn_error *error);

#endif
