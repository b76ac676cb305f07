/* An LD_PRELOAD library that makes one allocation of a running program fail, whoever asks for it.
 *
 * FAIL_ALLOC names a file of three 64-bit numbers that a test maps too:
 *   countdown  the countdown-th allocation from now fails, once; 0 or less: none does
 *   seen       allocations so far
 *   failed     of those, made to fail
 * Without the variable nothing fails. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct control {
    atomic_llong countdown, seen, failed;
} control;

/* glibc's own allocator, under the names that stay when ours take the usual ones. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static control *shared; /* NULL before the constructor, and without the variable */

__attribute__((constructor)) static void map_control(void)
{
    const char *path = getenv("FAIL_ALLOC");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof(control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED)
        shared = memory;
}

static bool fails(void)
{
    if (!shared)
        return false;
    atomic_fetch_add(&shared->seen, 1);
    if (atomic_load(&shared->countdown) <= 0 || atomic_fetch_sub(&shared->countdown, 1) != 1)
        return false;
    atomic_fetch_add(&shared->failed, 1);
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return fails() ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    void *memory = memalign(alignment, size);
    if (memory)
        *block = memory;
    return memory ? 0 : ENOMEM;
}
