/* The table of routes. */
#include "server/routes.h"

#include "server/endpoints/endpoints.h"

#include <stdio.h>
#include <string.h>

const srv_route srv_routes[] = {
#define ROUTE(method, path, endpoint, admin, tensors, answer, summary) \
    {method, path, srv_endpoint_##endpoint, admin, tensors, answer, summary},
#include "server/routes.def"
#undef ROUTE
    {0},
};

static const char placeholder[] = "{m}";

/* Whether the pattern covers the path; where {m} begins in it and how long it is, if there is one.
 */
static bool covers(const char *pattern, const char *path, const char **parameter, size_t *length)
{
    const char *place = strstr(pattern, placeholder);
    *parameter = path;
    *length = 0;
    if (!place)
        return strcmp(pattern, path) == 0;
    size_t before = (size_t)(place - pattern);
    if (strncmp(pattern, path, before) != 0)
        return false;
    *parameter = path + before;
    *length = strcspn(*parameter, "/");
    return *length > 0 && strcmp(place + strlen(placeholder), *parameter + *length) == 0;
}

void srv_route_parameter(const srv_route *route, const char *path, char *parameter, size_t size)
{
    const char *found;
    size_t length;
    bool covered = covers(route->path, path, &found, &length);
    snprintf(parameter, size, "%.*s", covered ? (int)length : 0, found);
}

const srv_route *srv_route_find(const char *method, const char *path, bool *takes_method,
                                char *allow, size_t size)
{
    const srv_route *found = NULL;
    if (strcmp(method, "HEAD") == 0)
        method = "GET";
    allow[0] = '\0';
    for (const srv_route *route = srv_routes; route->path; route++) {
        const char *parameter;
        size_t length;
        if (!covers(route->path, path, &parameter, &length))
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
