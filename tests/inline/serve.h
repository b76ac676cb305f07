/* Answer a request on the calling thread: no sockets, no loop, no workers.
 *
 * From the complete body to the finished answer everything is the daemon's own code. Only the hands
 * that a job goes through are taken over, by the linker: a program that uses this is linked with
 * -Wl,--wrap for srv_executor_submit, srv_executor_load and srv_loop_finished. A server with an
 * executor of its own still reaches the real ones. */
#ifndef TESTS_INLINE_SERVE_H
#define TESTS_INLINE_SERVE_H

#include "server/request.h"

typedef struct inline_call {
    srv_endpoint *endpoint;
    srv_format format, wanted; /* of the body, of the answer */
    srv_pair *query;           /* borrowed, like the body */
    int query_count;
    const char *body;
    size_t body_length;
} inline_call;

/* A server without executor and loop, for the best kernels of this CPU, whose plans are the same
 * everywhere. False: no memory. */
bool inline_open(srv_server *server);
void inline_close(srv_server *server);

/* A request as it is when its body has come, the body in a block without a byte to spare. False: no
 * memory for that; inline_end in any case. */
bool inline_begin(srv_server *server, const inline_call *call, srv_request *request);

/* Call the endpoint and run its job to the end: request->answer is filled. */
void inline_answer(const inline_call *call, srv_request *request);

void inline_end(srv_request *request);

/* The answer's body as one NUL-terminated block of request->bytes_out bytes, to free(); NULL: no
 * memory. */
char *inline_body(srv_request *request);

#endif
