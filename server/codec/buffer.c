/* Bytes that grow by doubling. Large blocks are moved by the kernel's page tables and pages that
 * were never written cost nothing, so the doubling is cheap in time and in resident memory. */
#include "server/codec/buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTES = 256
};

bool srv_buffer_reserve(srv_buffer *buffer, size_t extra)
{
    if (extra <= buffer->capacity - buffer->used)
        return true;
    if (extra > SIZE_MAX / 2 - buffer->used)
        return false;
    size_t needed = buffer->used + extra;
    size_t doubled = buffer->capacity ? buffer->capacity * 2 : FIRST_BYTES;
    size_t capacity = needed > doubled ? needed : doubled;
    void *bytes = realloc(buffer->bytes, capacity);
    if (!bytes)
        return false;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

bool srv_buffer_add(srv_buffer *buffer, const void *bytes, size_t count)
{
    if (!srv_buffer_reserve(buffer, count))
        return false;
    if (count)
        memcpy((char *)buffer->bytes + buffer->used, bytes, count);
    buffer->used += count;
    return true;
}

void srv_buffer_trim(srv_buffer *buffer)
{
    if (buffer->used == 0 || buffer->used == buffer->capacity)
        return;
    void *bytes = realloc(buffer->bytes, buffer->used);
    if (bytes) {
        buffer->bytes = bytes;
        buffer->capacity = buffer->used;
    }
}

void srv_buffer_close(srv_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (srv_buffer){0};
}
