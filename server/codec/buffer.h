/* Bytes that grow: for tensors and texts whose size is known only at their end. */
#ifndef SERVER_CODEC_BUFFER_H
#define SERVER_CODEC_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct srv_buffer {
    void *bytes; /* owned; aligned as by malloc; NULL while empty */
    size_t used, capacity;
} srv_buffer; /* all zero is an empty one */

/* Make room for `extra` bytes after `used`, at least doubling. False: no memory, nothing changed.
 */
bool srv_buffer_reserve(srv_buffer *buffer, size_t extra);

/* Append, growing as needed. */
bool srv_buffer_add(srv_buffer *buffer, const void *bytes, size_t count);

/* Give back what is not used. */
void srv_buffer_trim(srv_buffer *buffer);

void srv_buffer_close(srv_buffer *buffer);

#endif
