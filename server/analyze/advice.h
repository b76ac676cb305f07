/* Advice: every backend of a sweep run on the request's own tensors and held against exact
 * attention, a trial after the other. */
#ifndef SERVER_ANALYZE_ADVICE_H
#define SERVER_ANALYZE_ADVICE_H

#include "attn/program.h"
#include "server/analyze/question.h"
#include "server/executor.h"
#include "server/server.h"

typedef struct srv_advice {
    const srv_question *question; /* borrowed */
    attn_trial
        trials[ATTN_MAX_TRIALS]; /* those that are possible, exact first; in order in the end */
    attn_program *programs[ATTN_MAX_TRIALS]; /* owned, as the trials are ordered at first */
    int count;
    size_t shared_bytes, scratch_bytes; /* the most that a trial needs */
    int at, phase; /* trial that runs, and phase of its program; behind the last it is compared */
    attn_frame frame;
    float *exact, *out; /* answers */
    double *sums;       /* of each head of the batch: |out - exact|^2 and |exact|^2 */
} srv_advice;

/* Choose the trials. Errors are those of exact attention; srv_advice_close ends the advice whatever
 * this returns. */
attn_status srv_advice_plan(srv_advice *advice, const srv_server *server,
                            const srv_question *question, attn_error *error);

/* Memory beside the scratch, and time, that the trials take. */
double srv_advice_bytes(const srv_advice *advice);
double srv_advice_ns(const srv_advice *advice);

/* Take that memory. False: there is none. */
bool srv_advice_open(srv_advice *advice);

/* At a barrier: describe the next phase. False when all is measured; the trials are in order then.
 */
bool srv_advice_next(srv_advice *advice, attn_phase *phase);

/* A tile of it. ATTN_NON_FINITE when exact attention itself overflows. */
attn_status srv_advice_run(srv_advice *advice, int64_t tile, attn_arena *scratch);

void srv_advice_close(srv_advice *advice);

#endif
