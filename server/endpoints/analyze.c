/* POST /v1/analyze. */
#include "server/analyze/analyze.h"
#include "server/endpoints/endpoints.h"

void srv_endpoint_analyze(srv_request *request)
{
    srv_analyze_start(request);
}
