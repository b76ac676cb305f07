/* Opening sockets by address: "host:port", "[ipv6]:port" or "unix:/path". */
#ifndef SERVER_LISTEN_H
#define SERVER_LISTEN_H

#include "attn/status.h"

/* Whether the address has one of these forms; a host name is not looked up. */
attn_status srv_listen_check(const char *address, const char *key, attn_error *error);

/* A listening, non-blocking socket, or -1 with a sentence that names `key`, the setting the address
 * came from. The file of a unix socket that nobody answers on any more is replaced. */
int srv_listen(const char *address, const char *key, attn_error *error);

/* Remove the file of a unix socket that srv_listen made; nothing for other addresses. */
void srv_unlisten(const char *address);

/* A connected, blocking socket, or -1 with a sentence. */
int srv_connect(const char *address, const char *key, attn_error *error);

#endif
