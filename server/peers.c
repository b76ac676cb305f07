/* A list of connections with a time each. */
#include "server/peers.h"

#include <stdlib.h>
#include <sys/socket.h>

srv_peer *srv_peers_add(srv_peers *peers, int fd, int64_t now_ns)
{
    peers->count++;
    srv_peer *peer = malloc(sizeof *peer);
    if (!peer)
        return NULL;
    *peer = (srv_peer){.fd = fd, .since_ns = now_ns, .next = peers->first};
    if (peers->first)
        peers->first->previous = peer;
    peers->first = peer;
    return peer;
}

void srv_peers_remove(srv_peers *peers, srv_peer *peer)
{
    peers->count--;
    if (!peer)
        return;
    *(peer->previous ? &peer->previous->next : &peers->first) = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    free(peer);
}

void srv_peer_set(srv_peer *peer, srv_peer_state state, int64_t now_ns)
{
    if (!peer)
        return;
    peer->state = state;
    peer->since_ns = now_ns;
}

static int64_t limit_s(srv_peer_state state, const srv_config *config)
{
    switch (state) {
    case SRV_PEER_HEADER:
        return config->header_timeout_s;
    case SRV_PEER_BODY:
    case SRV_PEER_SEND:
        return config->body_timeout_s;
    case SRV_PEER_IDLE:
        return config->idle_timeout_s;
    case SRV_PEER_WORK:
        break;
    }
    return 0;
}

/* Whether a peer that owes us bytes has closed. libmicrohttpd misses an end that comes in the same
 * event as the last bytes: it reads those, and waits for an edge that is past. */
static bool has_left(const srv_peer *peer)
{
    char next;
    return peer->state != SRV_PEER_WORK && peer->state != SRV_PEER_SEND &&
           recv(peer->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void srv_peers_sweep(const srv_peers *peers, const srv_config *config, int64_t now_ns)
{
    for (const srv_peer *peer = peers->first; peer; peer = peer->next) {
        int64_t limit_ns = limit_s(peer->state, config) * 1000000000;
        if ((limit_ns > 0 && now_ns - peer->since_ns > limit_ns) || has_left(peer))
            shutdown(peer->fd, SHUT_RDWR);
    }
}
