/* The table of routes. */
#include "server/routes.h"

#include "server/endpoints/endpoints.h"

#include <stdio.h>
#include <string.h>

const srv_route srv_routes[] = {
#define ROUTE(method, path, endpoint, admin, summary) \
    {method, path, srv_endpoint_##endpoint, admin, summary},
#include "server/routes.def"
#undef ROUTE
    {0},
};

const srv_route *srv_route_find(const char *method, const char *path, bool *takes_method,
                                char *allow, size_t size)
{
    const srv_route *found = NULL;
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    allow[0] = '\0';
    for (const srv_route *route = srv_routes; route->path; route++) {
        if (strcmp(route->path, path) != 0)
            continue;
        found = route;
        *takes_method = strcmp(found->method, method) == 0;
        if (*takes_method)
            return found;
        const char *also = strcmp(route->method, "GET") == 0 ? ", HEAD" : "";
        size_t used = strlen(allow);
        snprintf(allow + used, size - used, "%s%s%s", used ? ", " : "", route->method, also);
    }
    return found;
}
