/* Opening and mapping. A mapping outlives its descriptor, so a model holds none open. */
#include "model/file.h"

#include "attn/quote.h"
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static attn_status refuse(const char *path, attn_status status, const char *problem,
                          attn_error *error)
{
    char shown[ATTN_WHAT_MAX];
    attn_quote_end(shown, sizeof shown, path);
    return attn_error_set(error, status, shown, "%s: %s", shown, problem);
}

attn_status attn_path_join(attn_path path, const char *folder, const char *name, const char *suffix,
                           attn_error *error)
{
    int length = snprintf(path, sizeof(attn_path), "%s/%s%s", folder, name, suffix);
    if (length < 0 || (size_t)length >= sizeof(attn_path))
        return refuse(folder, ATTN_INVALID, "the path is too long", error);
    return ATTN_OK;
}

bool attn_file_exists(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0;
}

static attn_status check_kind(const char *path, const struct stat *found, attn_error *error)
{
    if (S_ISDIR(found->st_mode))
        return refuse(path, ATTN_INVALID, "is a directory, expected a file", error);
    if (!S_ISREG(found->st_mode))
        return refuse(path, ATTN_INVALID, "is not a regular file", error);
    if (found->st_size == 0)
        return refuse(path, ATTN_INVALID, "is empty", error);
    if ((uintmax_t)found->st_size > SIZE_MAX)
        return refuse(path, ATTN_INVALID, "is larger than the address space", error);
    return ATTN_OK;
}

static attn_status map(const char *path, int descriptor, attn_file *file, attn_error *error)
{
    struct stat found;
    if (fstat(descriptor, &found))
        return refuse(path, ATTN_INVALID, strerror(errno), error);
    attn_status status = check_kind(path, &found, error);
    if (status != ATTN_OK)
        return status;
    size_t size = (size_t)found.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (bytes == MAP_FAILED)
        return refuse(path, errno == ENOMEM ? ATTN_NO_MEMORY : ATTN_INVALID, strerror(errno),
                      error);
    *file = (attn_file){.bytes = bytes, .size = size};
    return ATTN_OK;
}

attn_status attn_file_map(const char *path, attn_file *file, attn_error *error)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return refuse(path, ATTN_INVALID, strerror(errno), error);
    attn_status status = map(path, descriptor, file, error);
    close(descriptor);
    return status;
}

void attn_file_unmap(attn_file *file)
{
    if (file->bytes)
        munmap((void *)(uintptr_t)file->bytes, file->size);
    *file = (attn_file){0};
}
