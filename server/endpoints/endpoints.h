/* The endpoints of routes.def. */
#ifndef SERVER_ENDPOINTS_H
#define SERVER_ENDPOINTS_H

#include "server/routes.h"

#define ROUTE(method, path, endpoint, admin, tensors, answer, summary) \
    srv_endpoint srv_endpoint_##endpoint;
#include "server/routes.def"
#undef ROUTE

#endif
