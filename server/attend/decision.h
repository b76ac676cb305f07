/* Which backend a call goes to, why, and what every other one would have cost. */
#ifndef SERVER_ATTEND_DECISION_H
#define SERVER_ATTEND_DECISION_H

#include "server/attend/candidates.h"
#include "server/text.h"

/* A backend whose answer was too far from exact attention. */
typedef struct srv_tried {
    const char *backend;
    double relative_l2;
} srv_tried;

typedef struct srv_decision {
    srv_candidates candidates;
    attn_policy policy;
    attn_choice choice; /* its index moves on with srv_decision_move_on */
    int first;          /* what it was */
    int moves;
    srv_tried tried[ATTN_CANDIDATES_MAX]; /* as many as there were moves, or one more */
    int tried_count;
} srv_decision;

/* Plan every backend and choose one. Refuses unknown names, options the named backend does not use,
 * and what it cannot do, with the reason. Any thread: it reads only what never changes.
 * srv_decision_free ends the decision whatever this returns. */
attn_status srv_decide(srv_decision *decision, srv_server *server, const srv_call *call,
                       const srv_inputs *inputs, const srv_options *options, bool plan_only,
                       attn_error *error);

void srv_decision_free(srv_decision *decision);

/* The chosen backend's answer is that far from exact attention, and the client allows `bound`: go
 * on to the next. False when there is none. */
bool srv_decision_move_on(srv_decision *decision, double relative_l2, double bound);

/* What the chosen backend is predicted to take, and those that were tried before it. */
double srv_decision_predicted_ms(const srv_decision *decision);

/* Bounds on the workspace, and on the part of it that tiles share, of whatever may come to run. */
size_t srv_decision_bytes(const srv_decision *decision);
size_t srv_decision_shared_bytes(const srv_decision *decision);

/* The candidate that was chosen, and its program, which borrows the call's masks and tensors. */
const attn_candidate *srv_decision_chosen(const srv_decision *decision);
const attn_program *srv_decision_program(const srv_decision *decision);

/* Append the value of `route` as the answers of attend and plan carry it. */
void srv_decision_print(const srv_decision *decision, srv_text *text);

#endif
