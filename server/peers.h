/* The open connections, and how long each has been in its state.
 *
 * libmicrohttpd only times inactivity, so a client that sends a byte a second lives for ever. These
 * timers count from when a state began, whatever trickles in. */
#ifndef SERVER_PEERS_H
#define SERVER_PEERS_H

#include "server/config.h"

typedef enum srv_peer_state {
    SRV_PEER_HEADER, /* connected, first request not yet seen: header_timeout_s */
    SRV_PEER_BODY,   /* a body arrives: body_timeout_s */
    SRV_PEER_WORK,   /* a job runs: no timer but the request's deadline */
    SRV_PEER_SEND,   /* an answer leaves: body_timeout_s */
    SRV_PEER_IDLE,   /* between two requests, the next one's header included: idle_timeout_s */
} srv_peer_state;

typedef struct srv_peer {
    int fd;
    srv_peer_state state;
    int64_t since_ns;
    struct srv_peer *previous, *next;
} srv_peer;

/* Zero-initialised: none. */
typedef struct srv_peers {
    srv_peer *first;
    int64_t count;
} srv_peers;

/* A new connection on `fd`, in state HEADER. NULL without memory: it then has no timers. */
srv_peer *srv_peers_add(srv_peers *peers, int fd, int64_t now_ns);
void srv_peers_remove(srv_peers *peers, srv_peer *peer);

/* `peer` may be NULL. */
void srv_peer_set(srv_peer *peer, srv_peer_state state, int64_t now_ns);

/* Shut down the sockets of those whose time is over, or whose client closed unnoticed; their owner
 * then notices a closed connection. */
void srv_peers_sweep(const srv_peers *peers, const srv_config *config, int64_t now_ns);

#endif
