/* Paths to routes: what {m} stands for, and what it does not. */
#include "server/routes.h"
#include "tests/support/suite.h"

#include <string.h>

enum {
    SIZE = 16
};

static const struct {
    const char *path, *pattern; /* pattern NULL: there is nothing */
    const char *parameter;
} paths[] = {
    {"/healthz", "/healthz", ""},
    {"/healthz/", NULL, ""},
    {"/v1/models", "/v1/models", ""},
    {"/v1/models/", NULL, ""},
    {"/v1/models/demo", "/v1/models/{m}", "demo"},
    {"/v1/models/{m}", "/v1/models/{m}", "{m}"},
    {"/v1/models/a b", "/v1/models/{m}", "a b"},
    {"/v1/models/demo/", NULL, ""},
    {"/v1/models/a/b", NULL, ""},
    {"/v1/modelsdemo", NULL, ""},
    {"/v1/models/0123456789abcdefg", "/v1/models/{m}", "0123456789abcde"}, /* cut */
    {"/v2/repository/models/m/load", "/v2/repository/models/{m}/load", "m"},
    {"/v2/repository/models/load/load", "/v2/repository/models/{m}/load", "load"},
    {"/v2/repository/models/m/unload", "/v2/repository/models/{m}/unload", "m"},
    {"/v2/repository/models//load", NULL, ""},
    {"/v2/repository/models/load", NULL, ""},
    {"/v2/repository/models/m/loads", NULL, ""},
    {"/v2/repository/models/m/n/load", NULL, ""},
    {"", NULL, ""},
    {"/", NULL, ""},
};

static void paths_lead_to_patterns(void)
{
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        bool takes = false;
        char allow[64], parameter[SIZE];
        const srv_route *route = srv_route_find("PUT", paths[i].path, &takes, allow, sizeof allow);
        const char *pattern = route ? route->path : NULL;
        CHECK(!pattern == !paths[i].pattern, "%s leads to %s", paths[i].path,
              pattern ? pattern : "nothing");
        if (!pattern || !paths[i].pattern)
            continue;
        srv_route_parameter(route, paths[i].path, parameter, sizeof parameter);
        CHECK(strcmp(pattern, paths[i].pattern) == 0, "%s leads to %s", paths[i].path, pattern);
        CHECK(strcmp(parameter, paths[i].parameter) == 0, "%s holds \"%s\"", paths[i].path,
              parameter);
    }
}

static void methods_are_listed(void)
{
    static const struct {
        const char *method, *path, *allow;
        bool takes;
    } cases[] = {
        {"GET", "/v1/models/demo", "", true},
        {"HEAD", "/v1/models/demo", "", true},
        {"POST", "/v1/models/demo", "GET, HEAD", false},
        {"POST", "/v2/repository/models/demo/load", "", true},
        {"GET", "/v2/repository/models/demo/load", "POST", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool takes = false;
        char allow[64];
        const srv_route *route =
            srv_route_find(cases[i].method, cases[i].path, &takes, allow, sizeof allow);
        CHECK(route && takes == cases[i].takes, "%s %s", cases[i].method, cases[i].path);
        CHECK(takes || strcmp(allow, cases[i].allow) == 0, "%s allows %s", cases[i].path, allow);
    }
}

static void every_pattern_covers_itself(void)
{
    for (const srv_route *route = srv_routes; route->path; route++) {
        bool takes = false;
        char allow[64];
        const srv_route *found =
            srv_route_find(route->method, route->path, &takes, allow, sizeof allow);
        CHECK(found == route && takes, "%s %s", route->method, route->path);
    }
}

int main(void)
{
    return test_main("routes", (const test_case[]){
                                   {"paths lead to patterns", paths_lead_to_patterns},
                                   {"methods are listed", methods_are_listed},
                                   {"every pattern covers itself", every_pattern_covers_itself},
                                   {NULL, NULL},
                               });
}
