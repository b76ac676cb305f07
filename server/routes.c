/* The table of routes. */
#include "server/routes.h"

#include "server/endpoints/endpoints.h"

#include <stdio.h>
#include <string.h>

static const srv_route routes[] = {
#define ROUTE(method, path, endpoint) {method, path, srv_endpoint_##endpoint},
#include "server/routes.def"
#undef ROUTE
};

const srv_route *srv_route_find(const char *method, const char *path, bool *takes_method,
                                char *allow, size_t size)
{
    const srv_route *found = NULL;
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    allow[0] = '\0';
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(routes[i].path, path) != 0)
            continue;
        found = &routes[i];
        *takes_method = strcmp(found->method, method) == 0;
        if (*takes_method)
            return found;
        const char *also = strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "";
        size_t used = strlen(allow);
        snprintf(allow + used, size - used, "%s%s%s", used ? ", " : "", routes[i].method, also);
    }
    return found;
}
