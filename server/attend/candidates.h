/* Every backend that a call could go to, planned: what it would cost, or why it cannot be. */
#ifndef SERVER_ATTEND_CANDIDATES_H
#define SERVER_ATTEND_CANDIDATES_H

#include "attn/route.h"
#include "server/attend/call.h"
#include "server/cost/forecast.h"
#include "server/server.h"

typedef struct srv_candidates {
    attn_candidate all[ATTN_CANDIDATES_MAX];
    attn_program *programs[ATTN_CANDIDATES_MAX]; /* owned; NULL for those that are not eligible */
    srv_forecast forecasts[ATTN_CANDIDATES_MAX]; /* of those that have a program */
    int count;
} srv_candidates;

/* Plan every backend of a raw call, or of the call's model; those it lacks come last and say so.
 * `named` is the one that the client asks for, or NULL. Only a fault of the request itself fails.
 * srv_candidates_free ends them whatever this returns. */
attn_status srv_candidates_fill(srv_candidates *candidates, const srv_server *server,
                                const srv_call *call, const srv_options *options, const char *named,
                                attn_error *error);

/* Plan an eligible one once more, now with the sampling that the metrics want. What cannot be
 * sampled stays as it was. */
void srv_candidates_sample(srv_candidates *candidates, int index, const srv_server *server,
                           const srv_call *call, const srv_options *options);

void srv_candidates_free(srv_candidates *candidates);

#endif
