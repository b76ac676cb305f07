/* POST /v1/attend and POST /v1/plan. */
#include "server/attend/attend.h"
#include "server/endpoints/endpoints.h"

void srv_endpoint_attend(srv_request *request)
{
    srv_attend_start(request, false);
}

void srv_endpoint_plan(srv_request *request)
{
    srv_attend_start(request, true);
}
