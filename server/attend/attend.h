/* The work behind /v1/attend and /v1/plan, as one job: read the body, decide, compute, print. */
#ifndef SERVER_ATTEND_ATTEND_H
#define SERVER_ATTEND_ATTEND_H

#include "server/request.h"

/* Start the job on a complete request; its end fills request->answer and request->account. With
 * `plan_only` it ends after the decision. Refuses at once when there is no memory. */
void srv_attend_start(srv_request *request, bool plan_only);

#endif
