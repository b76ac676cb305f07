/* The answer of /v1/attend and /v1/plan as JSON. */
#ifndef SERVER_ATTEND_REPLY_H
#define SERVER_ATTEND_REPLY_H

#include "server/attend/decision.h"
#include "server/request.h"

typedef struct srv_reply {
    srv_request *request; /* its account is filled */
    const srv_options *options;
    const srv_decision *decision;
    const srv_call *call;
    bool plan_only;
    srv_part *pieces; /* the printed output, taken over; NULL when none is wanted */
    int64_t piece_count;
} srv_reply;

/* Fill request->answer. */
void srv_reply_write(srv_reply *reply);

#endif
