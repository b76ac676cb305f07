/* Closing gently after a refusal that did not wait for the body: srv_loop_linger's other half. */
#ifndef SERVER_LINGER_H
#define SERVER_LINGER_H

#include <stdint.h>
#include <uv.h>

typedef struct srv_linger srv_linger;

/* The sockets that are being read dry. Zero-initialised: none. */
typedef struct srv_lingers {
    srv_linger *first;
} srv_lingers;

/* Read a duplicate of `fd` until the peer closes, `most_bytes` have come, or a few seconds are
 * over. Without memory or descriptors the socket simply closes. */
void srv_lingers_add(srv_lingers *lingers, uv_loop_t *uv, int fd, int64_t most_bytes);

/* Give all of them up; their handles close in the next turn of the loop. */
void srv_lingers_end(srv_lingers *lingers);

#endif
