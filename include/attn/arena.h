/* A bump allocator over borrowed memory: how kernels and mixers get workspace.
 *
 * Nothing is freed one by one; a caller takes a mark, lends the arena on, and rewinds. The peak is
 * kept, so that a test can hold it against what the plan promised. */
#ifndef ATTN_ARENA_H
#define ATTN_ARENA_H

#include <stddef.h>

#define ATTN_ALIGN 64 /* bytes: a cache line, and the widest vector */

typedef struct attn_arena {
    unsigned char *base; /* borrowed, ATTN_ALIGN-aligned */
    size_t size, used, peak;
} attn_arena;

/* Borrow `size` bytes at `base` (aligned to ATTN_ALIGN) until the arena is forgotten. */
void attn_arena_init(attn_arena *arena, void *base, size_t size);

/* `bytes` of ATTN_ALIGN-aligned memory, contents undefined, or NULL when the arena is full. */
void *attn_arena_take(attn_arena *arena, size_t bytes);

/* Give back everything taken since `mark`, an earlier value of arena->used. */
void attn_arena_rewind(attn_arena *arena, size_t mark);

/* `bytes` rounded up to what attn_arena_take will really use. */
size_t attn_arena_round(size_t bytes);

#endif
