/* A request's job, shared by the files of its stages: attend.c says how they follow each other. */
#ifndef SERVER_ATTEND_STAGES_H
#define SERVER_ATTEND_STAGES_H

#include "server/attend/decision.h"
#include "server/attend/intake.h"
#include "server/attend/reply.h"
#include "server/codec/output.h"
#include "server/models/registry.h"

#include <stdatomic.h>

typedef enum srv_attend_stage {
    SRV_ATTEND_READ,
    SRV_ATTEND_COMPUTE,
    SRV_ATTEND_PRINT,
} srv_attend_stage;

typedef struct srv_attend {
    srv_job job; /* first: the executor hands it back */
    srv_request *request;
    bool plan_only;
    srv_attend_stage stage;
    int phase; /* of the plan */

    srv_intake intake;
    srv_model *model; /* a reference; NULL: a raw call */
    srv_options options;
    bool returns_output; /* not only how it went */
    srv_inputs inputs;
    srv_call call;
    srv_decision decision;
    attn_frame frame;
    float *out;
    size_t shared_bytes; /* of the workspace that tiles share, what was used at most */
    attn_deviation deviation;
    srv_output output;
    srv_part *pieces; /* of the printed output */
    int64_t piece_count;
    atomic_llong first_bad; /* index of the first output that is not finite */

    bool refused;
    srv_problem problem;
    int64_t submitted_ns, read_ns, computed_ns; /* when each stage ended */
    int64_t read_busy_ns, computed_busy_ns;     /* the job's busy_ns then */
} srv_attend;

/* End the work with this answer; returns false. */
bool srv_attend_refuse(srv_attend *a, srv_problem problem);

/* DECIDE, after the last slice: what is asked for, who computes it, and memory for that. False when
 * the work ends here, refused or because only a plan is wanted. */
bool srv_attend_decide(srv_attend *a);

/* PRINT a piece of the output; ATTN_NON_FINITE when there is a number in it that is none. */
attn_status srv_attend_print(srv_attend *a, int64_t piece);

/* After PRINT failed so: refuse, naming the first such number. */
void srv_attend_refuse_non_finite(srv_attend *a);

/* Note in the request's account what was done and how long it took. */
void srv_attend_account(srv_attend *a);

#endif
