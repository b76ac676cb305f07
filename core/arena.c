/* The bump allocator behind all workspace. */
#include "attn/arena.h"

size_t attn_arena_round(size_t bytes)
{
    return (bytes + ATTN_ALIGN - 1) & ~(size_t)(ATTN_ALIGN - 1);
}

void attn_arena_init(attn_arena *arena, void *base, size_t size)
{
    *arena = (attn_arena){.base = base, .size = size};
}

void *attn_arena_take(attn_arena *arena, size_t bytes)
{
    size_t room = arena->size - arena->used;
    if (bytes > room || attn_arena_round(bytes) > room)
        return NULL;
    void *taken = arena->base + arena->used;
    arena->used += attn_arena_round(bytes);
    if (arena->used > arena->peak)
        arena->peak = arena->used;
    return taken;
}

void attn_arena_rewind(attn_arena *arena, size_t mark)
{
    arena->used = mark;
}
