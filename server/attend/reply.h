/* The answer of /v1/attend and /v1/plan, as JSON or as safetensors. */
#ifndef SERVER_ATTEND_REPLY_H
#define SERVER_ATTEND_REPLY_H

#include "server/attend/decision.h"
#include "server/codec/output.h"
#include "server/request.h"

typedef struct srv_reply {
    srv_request *request; /* its account is filled */
    const srv_options *options;
    const srv_decision *decision;
    const srv_call *call;
    bool plan_only;
    attn_deviation deviation;
    const srv_output *output; /* NULL when none is wanted */
    float *data;              /* output->data, malloc'ed; NULL once the answer took it over */
    srv_part *pieces;         /* the output as text, taken over */
    int64_t piece_count;
} srv_reply;

/* Fill request->answer. False, and the answer empty, when there is no memory. */
bool srv_reply_write(srv_reply *reply);

#endif
