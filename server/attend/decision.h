/* Which backend a call goes to, why, and what every other one would have cost. */
#ifndef SERVER_ATTEND_DECISION_H
#define SERVER_ATTEND_DECISION_H

#include "server/attend/candidates.h"
#include "server/text.h"

typedef struct srv_decision {
    srv_candidates candidates;
    attn_choice choice;
} srv_decision;

/* Plan every backend and choose one. Refuses unknown names, options the named backend does not use,
 * and what it cannot do, with the reason. Any thread: it reads only what never changes.
 * srv_decision_free ends the decision whatever this returns. */
attn_status srv_decide(srv_decision *decision, const srv_server *server, const srv_call *call,
                       const srv_inputs *inputs, const srv_options *options, attn_error *error);

void srv_decision_free(srv_decision *decision);

/* The candidate that was chosen, and its program, which borrows the call's masks and tensors. */
const attn_candidate *srv_decision_chosen(const srv_decision *decision);
const attn_program *srv_decision_program(const srv_decision *decision);

/* Append the value of `route` as the answers of attend and plan carry it. */
void srv_decision_print(const srv_decision *decision, srv_text *text);

#endif
