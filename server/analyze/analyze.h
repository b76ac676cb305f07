/* The work behind /v1/analyze, as one background job: read the body, analyse every head, measure
 * the backends, print. */
#ifndef SERVER_ANALYZE_ANALYZE_H
#define SERVER_ANALYZE_ANALYZE_H

#include "server/request.h"

/* Start the job on a complete request; its end fills request->answer. Refuses at once when too many
 * analyses wait already, or there is no memory. */
void srv_analyze_start(srv_request *request);

#endif
