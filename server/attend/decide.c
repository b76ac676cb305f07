/* Between reading and computing, at the barrier: options, sizes, backend, memory. */
#include "server/admission.h"
#include "server/attend/estimate.h"
#include "server/attend/stages.h"
#include "server/attend/transfer.h"
#include "server/clock.h"

#include <stdlib.h>
#include <string.h>

static int64_t output_count(const attn_shape *s)
{
    int64_t rows = s->batch * s->heads, count;
    if (__builtin_mul_overflow(rows, s->n, &count) || __builtin_mul_overflow(count, s->dv, &count))
        return INT64_MAX;
    return count;
}

/* From here on everything is known: reserve it all, and give back what reading no longer needs. */
static bool reserve(srv_attend *a)
{
    srv_request *request = a->request;
    const attn_shape *s = &a->call.shape;
    double bytes = (double)output_count(s) * sizeof(float) +
                   (double)srv_decision_bytes(&a->decision) +
                   (double)srv_source_bytes(a->intake.source) + (double)request->body_room;
    if (a->call.key_mask)
        bytes += (double)s->batch * (double)s->m;
    if (a->returns_output && request->wanted == SRV_FORMAT_JSON)
        bytes += srv_output_bound(&a->output);
    size_t needed = srv_countable_bytes(bytes);
    srv_problem problem;
    return (srv_admit_bytes(request->server, &request->share, needed, "the call", &problem) &&
            srv_admit_cost(request->server, &problem)) ||
           srv_attend_refuse(a, problem);
}

/* A plan may be asked for without tensors. */
static bool is_shape(const srv_attend *a)
{
    const srv_inputs *in = &a->inputs;
    return a->plan_only && !in->q && !in->k && !in->v && !in->input;
}

static attn_status read_call(srv_attend *a, attn_error *error)
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
static bool acquire_model(srv_attend *a)
{
    srv_problem problem;
    const char *name = srv_options_string(&a->options, SRV_FIELD_MODEL, NULL);
    if (!name)
        return true;
    a->model = srv_registry_acquire(a->request->server->registry, name, &problem);
    return a->model || srv_attend_refuse(a, problem);
}

static attn_status decide(srv_attend *a, attn_error *error)
{
    unsigned routes = a->plan_only ? SRV_FOR_ATTEND | SRV_FOR_PLAN : SRV_FOR_ATTEND;
    attn_status status = srv_source_options(a->intake.source, routes, &a->options, error);
    if (status != ATTN_OK)
        return status;
    a->returns_output = srv_options_bool(&a->options, SRV_FIELD_RETURN_OUTPUT, true);
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

static void describe_output(srv_attend *a)
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

static bool open_frame(srv_attend *a)
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
    return srv_attend_refuse(a, srv_problem_from(ATTN_NO_MEMORY, NULL));
}

bool srv_attend_decide(srv_attend *a)
{
    attn_error error = {0};
    a->read_ns = srv_now_ns();
    a->read_busy_ns = a->job.busy_ns;
    a->inputs = srv_source_inputs(a->intake.source);
    attn_status status = decide(a, &error);
    if (a->refused)
        return false;
    if (status != ATTN_OK)
        return srv_attend_refuse(a, srv_problem_from(status, &error));
    if (a->plan_only)
        return false;
    if (!srv_source_needs_body(a->intake.source))
        srv_request_drop_body(a->request);
    srv_intake_set_deadline(&a->intake, &a->options, &a->job);
    describe_output(a);
    return reserve(a) && open_frame(a);
}
