/* Slices of a body. */
#include "server/attend/intake.h"

#include "server/admission.h"
#include "server/cost/forecast.h"

enum {
    SLICE_BYTES = 512 << 10, /* of body text a tile reads */
};
/* What reading so many bytes of the body is predicted to take. */
static double read_ns(const srv_intake *intake, double bytes)
{
    const srv_request *request = intake->request;
    return srv_forecast_read_ns(request->server, request->format == SRV_FORMAT_JSON, bytes);
}

bool srv_intake_open(srv_intake *intake, srv_request *request, srv_job *job)
{
    *intake = (srv_intake){.request = request, .source = srv_source_open(request)};
    intake->step = SRV_BODY_MORE;
    job->remaining_ns = read_ns(intake, (double)request->body_length);
    return intake->source != NULL;
}

bool srv_intake_next(srv_intake *intake, srv_job *job, attn_phase *phase)
{
    if (intake->step != SRV_BODY_MORE)
        return false;
    double left = (double)intake->request->body_length - (double)++intake->slices * SLICE_BYTES;
    job->remaining_ns = read_ns(intake, left > 0 ? left : 0);
    *phase = (attn_phase){"read", 1, read_ns(intake, SLICE_BYTES)};
    return true;
}

/* A JSON body was reserved for before it came. Of a safetensors body only the header tells what
 * converting its tensors takes. */
static bool reserve_conversion(const srv_intake *intake, srv_problem *problem)
{
    srv_request *request = intake->request;
    size_t bytes = srv_source_bytes(intake->source) + request->body_room;
    if (request->format == SRV_FORMAT_JSON || bytes <= request->share.bytes)
        return true;
    return srv_admit_bytes(request->server, &request->share, bytes, "the tensors", problem);
}

bool srv_intake_run(srv_intake *intake, srv_problem *problem)
{
    attn_error error = {0};
    intake->step = srv_source_read(intake->source, SLICE_BYTES, &error);
    if (intake->step == SRV_BODY_MORE)
        return reserve_conversion(intake, problem);
    if (intake->step == SRV_BODY_FAULT)
        *problem = srv_problem_from(error.status, &error);
    return intake->step != SRV_BODY_FAULT;
}

void srv_intake_set_deadline(const srv_intake *intake, const srv_options *options, srv_job *job)
{
    const srv_request *request = intake->request;
    double fallback = (double)request->server->config.default_deadline_ms;
    double ms = srv_options_real(options, SRV_FIELD_DEADLINE_MS, fallback);
    if (ms > 0)
        job->deadline_ns = request->arrived_ns + (int64_t)(ms * 1e6);
}

void srv_intake_close(srv_intake *intake)
{
    srv_source_close(intake->source);
    intake->source = NULL;
}
