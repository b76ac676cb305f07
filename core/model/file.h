/* Files of a model folder, mapped read-only. */
#ifndef CORE_MODEL_FILE_H
#define CORE_MODEL_FILE_H

#include "attn/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef char attn_path[PATH_MAX];

/* "<folder>/<name><suffix>"; ATTN_INVALID when that is too long for a path. */
attn_status attn_path_join(attn_path path, const char *folder, const char *name, const char *suffix,
                           attn_error *error);

/* Whether there is something of that name, be it readable or not. */
bool attn_file_exists(const char *path);

typedef struct attn_file {
    const unsigned char *bytes;
    size_t size; /* > 0 */
} attn_file;

/* Map the whole file; links are followed. ATTN_INVALID names the path and says why not: it is not
 * there, is empty, is no regular file (nothing waits for the other end of a FIFO), or may not be
 * read; ATTN_NO_MEMORY when the address space has no room. */
attn_status attn_file_map(const char *path, attn_file *file, attn_error *error);
void attn_file_unmap(attn_file *file);

#endif
