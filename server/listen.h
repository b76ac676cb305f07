/* Opening the socket that is served on. */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "attn/status.h"

/* A listening, non-blocking socket for "host:port" or "[ipv6]:port", or -1 with a sentence that
 * names the configuration `key`. */
int srv_listen(const char *address, const char *key, attn_error *error);

#endif
