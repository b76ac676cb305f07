/* HTTP as libmicrohttpd speaks it: requests in, answers out. Everything on the loop thread. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "attn/status.h"
#include "server/server.h"

struct MHD_Daemon;
struct srv_request;

/* What a listener's connections are served. */
typedef struct srv_port {
    srv_server *server;
    bool admin; /* only routes for operations, whatever the other one is busy with */
} srv_port;

/* Serve on a listening socket, which the daemon then owns. `port` stays borrowed. NULL with a
 * sentence. */
struct MHD_Daemon *srv_http_open(srv_port *port, int listen_fd, attn_error *error);

/* The request's answer is ready: let its connection go on. */
void srv_http_resume(struct srv_request *request);

#endif
