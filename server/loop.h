/* The event loop: libmicrohttpd's epoll inside libuv, signals, and the way back from workers. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "attn/status.h"
#include "server/server.h"

struct srv_request;

typedef struct srv_loop srv_loop;

/* Bind the listener and make everything ready; server->loop is set. */
attn_status srv_loop_open(srv_server *server, attn_error *error);

/* Serve until SIGTERM or SIGINT, then drain: refuse new work, answer all that was accepted, and
 * return. A second signal ends the process at once. */
void srv_loop_run(srv_loop *loop);

/* Stop listening and free everything. NULL is fine. */
void srv_loop_close(srv_loop *loop);

/* The request's job runs and its connection, socket `fd`, is suspended: watch for its end, and for
 * the client leaving. */
void srv_loop_wait(srv_loop *loop, struct srv_request *request, int fd);

/* From any thread: the request's job is over. */
void srv_loop_finished(srv_loop *loop, struct srv_request *request);

/* Keep a duplicate of `fd`, whose owner is about to close it, and read it dry for a while. A socket
 * that closes with unread bytes in it sends a reset, and most clients then report a broken pipe
 * instead of the refusal they were sent. */
void srv_loop_linger(srv_loop *loop, int fd);

#endif
