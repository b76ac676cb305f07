/* A request's stages, each one or more phases of tiles:
 *
 *   READ     a slice of the body a tile, one after the other, so that a long body yields
 *   DECIDE   (at the barrier) options, sizes, backend, memory
 *   COMPUTE  the plan's phases
 *   PRINT    pieces of the answer, in any order; also where a NaN is found
 *
 * Workers own everything here from start to done; the loop thread reads it after. */
#include "server/attend/attend.h"

#include "attn/dtype.h"
#include "server/admission.h"
#include "server/attend/decision.h"
#include "server/attend/estimate.h"
#include "server/attend/intake.h"
#include "server/attend/reply.h"
#include "server/attend/transfer.h"
#include "server/clock.h"
#include "server/codec/output.h"
#include "server/loop.h"
#include "server/models/registry.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef enum stage {
    READ,
    COMPUTE,
    PRINT,
} stage;

typedef struct attend {
    srv_job job; /* first: the executor hands it back */
    srv_request *request;
    bool plan_only;
    stage stage;
    int phase; /* of the plan */

    srv_intake intake;
    srv_model *model; /* a reference; NULL: a raw call */
    srv_options options;
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
    bool tried_more;                            /* than one backend */
} attend;

static attend *of_job(srv_job *job)
{
    return (attend *)(void *)job;
}

static bool refuse(attend *a, srv_problem problem)
{
    a->refused = true;
    a->problem = problem;
    return false;
}

static bool returns_output(const attend *a)
{
    return srv_options_bool(&a->options, SRV_FIELD_RETURN_OUTPUT, true);
}

static int64_t output_count(const attn_shape *s)
{
    int64_t rows = s->batch * s->heads, count;
    if (__builtin_mul_overflow(rows, s->n, &count) || __builtin_mul_overflow(count, s->dv, &count))
        return INT64_MAX;
    return count;
}

/* From here on everything is known: reserve it all, and give back what reading no longer needs. */
static bool reserve(attend *a)
{
    srv_request *request = a->request;
    const attn_shape *s = &a->call.shape;
    double bytes = (double)output_count(s) * sizeof(float) +
                   (double)srv_decision_bytes(&a->decision) +
                   (double)srv_source_bytes(a->intake.source) + (double)request->body_room;
    if (a->call.key_mask)
        bytes += (double)s->batch * (double)s->m;
    if (returns_output(a) && request->wanted == SRV_FORMAT_JSON)
        bytes += srv_output_bound(&a->output);
    /* More than any machine holds, but a size that can be counted. */
    size_t needed = bytes < 0x1p60 ? (size_t)bytes : (size_t)1 << 60;
    srv_problem problem;
    return (srv_admit_bytes(request->server, &request->share, needed, "the call", &problem) &&
            srv_admit_cost(request->server, &problem)) ||
           refuse(a, problem);
}

/* A plan may be asked for without tensors. */
static bool is_shape(const attend *a)
{
    const srv_inputs *in = &a->inputs;
    return a->plan_only && !in->q && !in->k && !in->v && !in->input;
}

static attn_status read_call(attend *a, attn_error *error)
{
    const srv_inputs *in = &a->inputs;
    bool from_shape = is_shape(a);
    if (!a->model)
        return from_shape ? srv_call_from_shape(&a->call, in, &a->options, error)
                          : srv_call_read(&a->call, in, &a->options, error);
    const attn_model *model = srv_model_weights(a->model);
    return from_shape ? srv_call_from_model_shape(&a->call, model, &a->options, error)
                      : srv_call_read_model(&a->call, model, in, &a->options, error);
}

/* The model that the request names, if it names one; false when there is none of that name. */
static bool acquire_model(attend *a)
{
    srv_problem problem;
    const char *name = srv_options_string(&a->options, SRV_FIELD_MODEL, NULL);
    if (!name)
        return true;
    a->model = srv_registry_acquire(a->request->server->registry, name, &problem);
    return a->model || refuse(a, problem);
}

static attn_status decide(attend *a, attn_error *error)
{
    unsigned routes = a->plan_only ? SRV_FOR_ATTEND | SRV_FOR_PLAN : SRV_FOR_ATTEND;
    attn_status status = srv_source_options(a->intake.source, routes, &a->options, error);
    if (status != ATTN_OK)
        return status;
    if (!acquire_model(a))
        return ATTN_OK;
    if (!a->model && srv_options_given(&a->options, SRV_FIELD_ADAPTER))
        return attn_error_set(error, ATTN_INVALID, "adapter",
                              "adapter goes with a model, and the request names none");
    status = read_call(a, error);
    a->call.transfer = is_shape(a) ? srv_transfer_of_shape(&a->call)
                                   : srv_transfer_of(a->request, &a->inputs, &a->call, &a->options,
                                                     a->intake.slices);
    srv_estimate_plan(&a->call, a->request, &a->options);
    if (status == ATTN_OK)
        status = srv_decide(&a->decision, a->request->server, &a->call, &a->inputs, &a->options,
                            a->plan_only, error);
    return status;
}

static void describe_output(attend *a)
{
    const srv_tensor *like = a->model ? a->inputs.input : a->inputs.q;
    a->output = (srv_output){.rank = like->rank, .form = like->form};
    memcpy(a->output.dim, like->dim, sizeof like->dim);
    a->output.dim[like->rank - 1] = a->call.shape.dv;
}

static float *data_of(const srv_tensor *tensor)
{
    return tensor ? tensor->data : NULL;
}

static bool open_frame(attend *a)
{
    const attn_shape *s = &a->call.shape;
    size_t shared = srv_decision_shared_bytes(&a->decision);
    a->out = malloc((size_t)output_count(s) * sizeof *a->out);
    float **data = a->frame.data;
    data[ATTN_ARRAY_Q] = data_of(a->inputs.q);
    data[ATTN_ARRAY_K] = data_of(a->inputs.k);
    data[ATTN_ARRAY_V] = data_of(a->inputs.v);
    data[ATTN_ARRAY_INPUT] = data_of(a->inputs.input);
    data[ATTN_ARRAY_OUT] = a->out;
    data[ATTN_ARRAY_SHARED] = shared ? aligned_alloc(ATTN_ALIGN, attn_arena_round(shared)) : NULL;
    a->output.data = a->out;
    a->piece_count = srv_output_pieces(&a->output);
    a->pieces = calloc((size_t)a->piece_count, sizeof *a->pieces);
    if (a->out && a->pieces && (!shared || data[ATTN_ARRAY_SHARED]))
        return true;
    return refuse(a, srv_problem_from(ATTN_NO_MEMORY, NULL));
}

/* After the last slice: false when the work ends here. */
static bool after_read(attend *a)
{
    attn_error error = {0};
    a->read_ns = srv_now_ns();
    a->read_busy_ns = a->job.busy_ns;
    a->inputs = srv_source_inputs(a->intake.source);
    attn_status status = decide(a, &error);
    if (a->refused)
        return false;
    if (status != ATTN_OK)
        return refuse(a, srv_problem_from(status, &error));
    if (a->plan_only)
        return false;
    if (!srv_source_needs_body(a->intake.source))
        srv_request_drop_body(a->request);
    srv_intake_set_deadline(&a->intake, &a->options, &a->job);
    describe_output(a);
    return reserve(a) && open_frame(a);
}

static bool next_compute(attend *a, attn_phase *phase);

/* The answer is farther from exact attention than the client allows: compute it once more by the
 * next backend. */
static bool try_next(attend *a, attn_phase *phase)
{
    double bound = a->call.max_relative_error;
    bool named = strcmp(a->decision.choice.rule, "explicit") == 0;
    if (!srv_decision_move_on(&a->decision, a->deviation.relative_l2, bound))
        return refuse(a, srv_problem_make(SRV_PROBLEM_INFEASIBLE, "hints.max_relative_error",
                                          "%s is %.3g from exact attention, max_relative_error is "
                                          "%.3g, and there is nothing else to try; allow more%s",
                                          srv_decision_chosen(&a->decision)->name,
                                          a->deviation.relative_l2, bound,
                                          named ? ", or leave the choice of the backend to attnd"
                                                : ", or more time if deadline_ms is given"));
    a->tried_more = true;
    a->stage = READ;
    return next_compute(a, phase);
}

static bool next_compute(attend *a, attn_phase *phase)
{
    const attn_program *program = srv_decision_program(&a->decision);
    size_t shared = attn_program_shared_bytes(program);
    double print_ns = srv_decision_forecast(&a->decision)->ns[SRV_STAGE_PRINT];
    if (a->stage != COMPUTE) {
        a->stage = COMPUTE;
        a->phase = -1;
        a->job.scratch_bytes = attn_program_scratch_bytes(program);
        a->shared_bytes = shared > a->shared_bytes ? shared : a->shared_bytes;
    }
    if (++a->phase < attn_program_phases(program)) {
        *phase = attn_program_phase(program, a->phase);
        a->job.remaining_ns = print_ns + attn_program_remaining_ns(program, a->phase + 1);
        return true;
    }
    a->deviation = attn_program_deviation(program, &a->frame);
    srv_estimate_note(&a->call, a->request, srv_decision_chosen(&a->decision)->name, a->deviation);
    if (!srv_estimate_is_allowed(&a->call, a->deviation))
        return try_next(a, phase);
    a->stage = PRINT;
    a->computed_ns = srv_now_ns();
    a->computed_busy_ns = a->job.busy_ns;
    a->job.scratch_bytes = 0;
    a->job.remaining_ns = 0;
    *phase = (attn_phase){"print", a->piece_count, print_ns / (double)a->piece_count};
    return true;
}

static bool next(srv_job *job, attn_phase *phase)
{
    attend *a = of_job(job);
    if (a->refused || a->stage == PRINT)
        return false;
    if (a->stage == READ) {
        if (srv_intake_next(&a->intake, job, phase))
            return true;
        if (!after_read(a))
            return false;
    }
    return next_compute(a, phase);
}

static attn_status run_read(attend *a)
{
    srv_problem problem;
    if (!srv_intake_run(&a->intake, &problem))
        refuse(a, problem);
    return ATTN_OK;
}

static void note_bad(attend *a, long long index)
{
    long long first = atomic_load(&a->first_bad);
    while (index < first && !atomic_compare_exchange_weak(&a->first_bad, &first, index))
        ;
}

static attn_status run_print(attend *a, int64_t piece)
{
    int64_t from = piece * SRV_OUTPUT_PIECE, left = output_count(&a->call.shape) - from;
    size_t count = (size_t)(left < SRV_OUTPUT_PIECE ? left : SRV_OUTPUT_PIECE);
    size_t bad = attn_first_non_finite(a->out + from, count);
    if (bad < count) {
        note_bad(a, from + (long long)bad);
        return ATTN_NON_FINITE;
    }
    if (!returns_output(a) || a->request->wanted != SRV_FORMAT_JSON)
        return ATTN_OK;
    srv_part *part = &a->pieces[piece];
    part->data = srv_output_print(&a->output, piece, &part->length);
    return part->data ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    attend *a = of_job(job);
    switch (a->stage) {
    case READ:
        return run_read(a);
    case COMPUTE:
        return attn_program_run(srv_decision_program(&a->decision), &a->frame, a->phase, tile,
                                scratch);
    case PRINT:
        break;
    }
    return run_print(a, tile);
}

static void note_failure(attend *a)
{
    if (a->job.status != ATTN_NON_FINITE) {
        refuse(a, srv_problem_from(a->job.status, NULL));
        return;
    }
    int64_t index[SRV_RANK_MAX];
    char path[SRV_PATH_MAX];
    srv_tensor_index(index, a->output.dim, a->output.rank, atomic_load(&a->first_bad));
    srv_tensor_path(path, "output", index, a->output.rank);
    refuse(a,
           srv_problem_make(SRV_PROBLEM_NON_FINITE, path,
                            "%s is not finite: products of these %s overflow float32; scale them "
                            "down",
                            path, a->model ? "hidden states and weights" : "q, k and v"));
}

/* What was predicted is one backend's time. */
static void fill_cost(attend *a)
{
    const srv_forecast *forecast = srv_decision_forecast(&a->decision);
    srv_account_cost *cost = &a->request->account.cost;
    if (a->tried_more)
        return;
    cost->busy_ns[SRV_STAGE_READ] = (double)a->read_busy_ns;
    cost->busy_ns[SRV_STAGE_COMPUTE] = (double)(a->computed_busy_ns - a->read_busy_ns);
    cost->busy_ns[SRV_STAGE_PRINT] = (double)(a->job.busy_ns - a->computed_busy_ns);
    for (srv_stage s = 0; s < SRV_STAGES; s++) {
        cost->kind[s] =
            srv_forecast_kind(&a->call.transfer, s, srv_decision_chosen(&a->decision)->name);
        cost->rates_ns[s] = forecast->rates_ns[s];
        cost->predicted_ns += forecast->ns[s];
    }
}

static void fill_account(attend *a)
{
    srv_account *account = &a->request->account;
    int64_t now = srv_now_ns();
    account->encoding = srv_format_name(a->request->format);
    account->answer_encoding = srv_format_name(a->request->wanted);
    account->backend = srv_decision_chosen(&a->decision)->name;
    account->rule = a->decision.choice.rule;
    account->n = a->call.longest;
    account->parse_s = (double)(a->read_ns - a->job.started_ns) * 1e-9;
    account->queue_s = (double)(a->job.started_ns - a->submitted_ns) * 1e-9;
    if (a->plan_only)
        return;
    account->tokens = a->call.shape.batch * a->call.shape.n;
    account->compute_s = (double)(a->computed_ns - a->read_ns) * 1e-9;
    account->serialize_s = (double)(now - a->computed_ns) * 1e-9;
    fill_cost(a);
    account->workspace_bytes = a->job.workspace_bytes + a->shared_bytes;
}

/* On the worker: giving gigabytes back would hold up the loop. */
static void release(attend *a)
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
    attend *a = of_job(job);
    if (!a->refused && job->status != ATTN_OK)
        note_failure(a);
    if (!a->refused) {
        fill_account(a);
        srv_reply reply = {.request = a->request,
                           .options = &a->options,
                           .decision = &a->decision,
                           .call = &a->call,
                           .plan_only = a->plan_only,
                           .deviation = a->deviation,
                           .output = returns_output(a) && !a->plan_only ? &a->output : NULL,
                           .data = a->out,
                           .pieces = a->pieces,
                           .piece_count = a->piece_count};
        if (!srv_reply_write(&reply))
            refuse(a, srv_problem_from(ATTN_NO_MEMORY, NULL));
        a->out = reply.data;
    }
    release(a);
    srv_loop_finished(a->request->server->loop, a->request);
}

static void end_work(void *work)
{
    attend *a = work;
    if (a->refused)
        srv_request_refuse(a->request, a->problem);
    free(a);
}

void srv_attend_start(srv_request *request, bool plan_only)
{
    attend *a = calloc(1, sizeof *a);
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
