/* Which backend a call goes to, why, and what every other one would have cost. */
#ifndef SERVER_ATTEND_DECISION_H
#define SERVER_ATTEND_DECISION_H

#include "attn/program.h"
#include "attn/route.h"
#include "server/attend/call.h"
#include "server/server.h"
#include "server/text.h"

enum {
    SRV_MAX_CANDIDATES = 16
};

typedef struct srv_decision {
    attn_candidate candidates[SRV_MAX_CANDIDATES];
    int count;
    attn_choice choice;
    attn_program *program; /* of the chosen backend, owned; borrows the call's masks and tensors */
} srv_decision;

/* Plan every backend and choose one. Refuses unknown names, options the named backend does not use,
 * and what it cannot do, with the reason. Any thread: it reads only what never changes.
 * srv_decision_free ends the decision whatever this returns. */
attn_status srv_decide(srv_decision *decision, const srv_server *server, const srv_call *call,
                       const srv_inputs *inputs, const srv_options *options, attn_error *error);

void srv_decision_free(srv_decision *decision);

/* The candidate that was chosen. */
const attn_candidate *srv_decision_chosen(const srv_decision *decision);

/* Append the value of `route` as the answers of attend and plan carry it. */
void srv_decision_print(const srv_decision *decision, srv_text *text);

#endif
