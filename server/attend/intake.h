/* Reading a request's body as the first phases of a job: a slice a tile, one after the other, so
 * that a long body yields to others. */
#ifndef SERVER_ATTEND_INTAKE_H
#define SERVER_ATTEND_INTAKE_H

#include "server/attend/source.h"

typedef struct srv_intake {
    srv_request *request;
    srv_source *source; /* owned */
    srv_body_step step; /* MORE until everything is read */
    int64_t slices;     /* read, or being read */
} srv_intake;

/* Begin on a complete request and predict the job's work. False: no memory. */
bool srv_intake_open(srv_intake *intake, srv_request *request, srv_job *job);

/* At a barrier: describe the next slice. False when all is read. */
bool srv_intake_next(srv_intake *intake, srv_job *job, attn_phase *phase);

/* Read the slice, and reserve what a first one says is needed. False, with the refusal. */
bool srv_intake_run(srv_intake *intake, srv_problem *problem);

/* The client's deadline, or the configured one, from the request's first header on. */
void srv_intake_set_deadline(const srv_intake *intake, const srv_options *options, srv_job *job);

void srv_intake_close(srv_intake *intake);

#endif
