/* From method and path to an endpoint. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

struct srv_request;

/* Answer a complete request: either fill request->answer, or start request->job, after whose end
 * request->answer is filled. Called on the loop thread. */
typedef void srv_endpoint(struct srv_request *request);

typedef struct srv_route {
    const char *method, *path;
    srv_endpoint *endpoint;
} srv_route;

/* The route, or NULL; then `allow` lists the methods the path does have, "" for an unknown path. */
const srv_route *srv_route_find(const char *method, const char *path, char *allow, size_t size);

#endif
