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
    const char *method, *path; /* {m} in the path is any text without a slash, but not none */
    srv_endpoint *endpoint;
    bool admin;         /* served on the admin listener too */
    bool tensors;       /* the body may be safetensors */
    const char *answer; /* what a 200 holds, as endpoints/answers.def writes types */
    const char *summary;
} srv_route;

/* Every route; the last has a NULL path. */
extern const srv_route srv_routes[];

/* What stands for {m} in a path that the route was found for, cut to `size` bytes; "" when the
 * route has no such place. libmicrohttpd has undone %-escapes before. */
void srv_route_parameter(const srv_route *route, const char *path, char *parameter, size_t size);

/* A route of that path, or NULL when the path is unknown. *takes_method tells whether it is the one
 * for the method; when it is not, `allow` lists the methods that the path does take. */
const srv_route *srv_route_find(const char *method, const char *path, bool *takes_method,
                                char *allow, size_t size);

#endif
