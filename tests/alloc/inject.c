/* The wrapped allocator: a countdown in front of the real one. */
#include "tests/alloc/inject.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_reallocarray(void *block, size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);

static atomic_long to_come = LONG_MAX; /* allocations until one fails */
static atomic_long failed, live;
static atomic_bool sticky;

void inject_start(long number, bool all_after)
{
    atomic_store(&failed, 0);
    atomic_store(&sticky, all_after);
    atomic_store(&to_come, number);
}

bool inject_stop(void)
{
    atomic_store(&to_come, LONG_MAX);
    return atomic_load(&failed) > 0;
}

long inject_live(void)
{
    return atomic_load(&live);
}

static bool fails(void)
{
    long number = atomic_fetch_sub(&to_come, 1);
    bool fail = number == 1 || (number < 1 && atomic_load(&sticky));
    atomic_fetch_add(&failed, fail);
    if (fail)
        errno = ENOMEM;
    return fail;
}

static void *counted(void *block)
{
    atomic_fetch_add(&live, block != NULL);
    return block;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *block, size_t size)
{
    if (fails())
        return NULL;
    void *moved = __real_realloc(block, size);
    return block ? moved : counted(moved);
}

void *__wrap_reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : __wrap_realloc(block, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *block)
{
    atomic_fetch_sub(&live, block != NULL);
    __real_free(block);
}
