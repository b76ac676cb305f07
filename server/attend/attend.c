/* A request's stages, each one or more phases of tiles:
 *
 *   READ     a slice of the body a tile, one after the other, so that a long body yields
 *   DECIDE   (at the barrier, decide.c) options, sizes, backend, memory
 *   COMPUTE  the plan's phases
 *   PRINT    (print.c) pieces of the answer, in any order; also where a NaN is found
 *
 * Workers own everything here from start to done; the loop thread reads it after. */
#include "server/attend/attend.h"

#include "server/attend/estimate.h"
#include "server/attend/stages.h"
#include "server/clock.h"
#include "server/loop.h"

#include <stdlib.h>
#include <string.h>

static srv_attend *of_job(srv_job *job)
{
    return (srv_attend *)(void *)job;
}

bool srv_attend_refuse(srv_attend *a, srv_problem problem)
{
    a->refused = true;
    a->problem = problem;
    return false;
}

static void begin_compute(srv_attend *a)
{
    const attn_program *program = srv_decision_program(&a->decision);
    size_t shared = attn_program_shared_bytes(program);
    a->stage = SRV_ATTEND_COMPUTE;
    a->phase = -1;
    a->job.scratch_bytes = attn_program_scratch_bytes(program);
    a->shared_bytes = shared > a->shared_bytes ? shared : a->shared_bytes;
}

/* The answer is farther from exact attention than the client allows: compute it once more by the
 * next backend. */
static bool try_next(srv_attend *a)
{
    double bound = a->call.max_relative_error;
    bool named = strcmp(a->decision.choice.rule, "explicit") == 0;
    if (srv_decision_move_on(&a->decision, a->deviation.relative_l2, bound)) {
        begin_compute(a);
        return true;
    }
    return srv_attend_refuse(
        a,
        srv_problem_make(SRV_PROBLEM_INFEASIBLE, "hints.max_relative_error",
                         "%s is %.3g from exact attention, max_relative_error is %.3g, and "
                         "there is nothing else to try; allow more%s",
                         srv_decision_chosen(&a->decision)->name, a->deviation.relative_l2, bound,
                         named ? ", or leave the choice of the backend to attnd"
                               : ", or more time if deadline_ms is given"));
}

/* The program is over: whether its answer will do. */
static bool is_accepted(srv_attend *a)
{
    a->deviation = attn_program_deviation(srv_decision_program(&a->decision), &a->frame);
    srv_estimate_note(&a->call, a->request, srv_decision_chosen(&a->decision)->name, a->deviation);
    return srv_estimate_is_allowed(&a->call, a->deviation);
}

static double print_ns(const srv_attend *a)
{
    return srv_decision_forecast(&a->decision)->ns[SRV_STAGE_PRINT];
}

static void begin_print(srv_attend *a, attn_phase *phase)
{
    a->stage = SRV_ATTEND_PRINT;
    a->computed_ns = srv_now_ns();
    a->computed_busy_ns = a->job.busy_ns;
    a->job.scratch_bytes = 0;
    a->job.remaining_ns = 0;
    *phase = (attn_phase){"print", a->piece_count, print_ns(a) / (double)a->piece_count};
}

static bool next_compute(srv_attend *a, attn_phase *phase)
{
    while (++a->phase == attn_program_phases(srv_decision_program(&a->decision))) {
        if (is_accepted(a)) {
            begin_print(a, phase);
            return true;
        }
        if (!try_next(a))
            return false;
    }
    const attn_program *program = srv_decision_program(&a->decision);
    *phase = attn_program_phase(program, a->phase);
    a->job.remaining_ns = print_ns(a) + attn_program_remaining_ns(program, a->phase + 1);
    return true;
}

static bool next(srv_job *job, attn_phase *phase)
{
    srv_attend *a = of_job(job);
    if (a->refused || a->stage == SRV_ATTEND_PRINT)
        return false;
    if (a->stage == SRV_ATTEND_READ) {
        if (srv_intake_next(&a->intake, job, phase))
            return true;
        if (!srv_attend_decide(a))
            return false;
        begin_compute(a);
    }
    return next_compute(a, phase);
}

static attn_status run_read(srv_attend *a)
{
    srv_problem problem;
    if (!srv_intake_run(&a->intake, &problem))
        srv_attend_refuse(a, problem);
    return ATTN_OK;
}

static attn_status run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    srv_attend *a = of_job(job);
    switch (a->stage) {
    case SRV_ATTEND_READ:
        return run_read(a);
    case SRV_ATTEND_COMPUTE:
        return attn_program_run(srv_decision_program(&a->decision), &a->frame, a->phase, tile,
                                scratch);
    case SRV_ATTEND_PRINT:
        break;
    }
    return srv_attend_print(a, tile);
}

/* On the worker: giving gigabytes back would hold up the loop. */
static void release(srv_attend *a)
{
    for (int64_t i = 0; a->pieces && i < a->piece_count; i++)
        free(a->pieces[i].data);
    free(a->pieces);
    free(a->out);
    free(a->frame.data[ATTN_ARRAY_SHARED]);
    srv_decision_free(&a->decision);
    srv_model_release(a->model);
    srv_call_free(&a->call);
    srv_options_free(&a->options);
    srv_intake_close(&a->intake);
    srv_request_drop_body(a->request);
}

static void done(srv_job *job)
{
    srv_attend *a = of_job(job);
    if (!a->refused && job->status == ATTN_NON_FINITE)
        srv_attend_refuse_non_finite(a);
    else if (!a->refused && job->status != ATTN_OK)
        srv_attend_refuse(a, srv_problem_from(job->status, NULL));
    if (!a->refused) {
        srv_attend_account(a);
        srv_reply reply = {.request = a->request,
                           .options = &a->options,
                           .decision = &a->decision,
                           .call = &a->call,
                           .plan_only = a->plan_only,
                           .deviation = a->deviation,
                           .output = a->returns_output && !a->plan_only ? &a->output : NULL,
                           .data = a->out,
                           .pieces = a->pieces,
                           .piece_count = a->piece_count};
        if (!srv_reply_write(&reply))
            srv_attend_refuse(a, srv_problem_from(ATTN_NO_MEMORY, NULL));
        a->out = reply.data;
    }
    release(a);
    srv_loop_finished(a->request->server->loop, a->request);
}

static void end_work(void *work)
{
    srv_attend *a = work;
    if (a->refused)
        srv_request_refuse(a->request, a->problem);
    free(a);
}

void srv_attend_start(srv_request *request, bool plan_only)
{
    srv_attend *a = calloc(1, sizeof *a);
    if (!a || !srv_intake_open(&a->intake, request, &a->job)) {
        free(a);
        srv_request_refuse(request, srv_problem_from(ATTN_NO_MEMORY, NULL));
        return;
    }
    a->request = request;
    a->plan_only = plan_only;
    atomic_init(&a->first_bad, INT64_MAX);
    a->job.next = next;
    a->job.run = run;
    a->job.done = done;
    a->job.yields = true;
    a->submitted_ns = srv_now_ns();
    srv_request_start(request, &a->job, a, end_work);
}
