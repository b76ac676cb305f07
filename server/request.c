/* What endpoints do with a request, and what its end leaves in the metrics. */
#include "server/request.h"

#include <stdlib.h>

void srv_request_refuse(srv_request *request, srv_problem problem)
{
    srv_answer_problem(&request->answer, &problem, request->path, request->id.text);
    const char *reason = srv_problem_reason(problem.id);
    if (reason[0] && !request->left) /* who left is counted as cancelled, and only so */
        srv_metrics_add(request->server->metrics, SRV_METRIC_REQUESTS_REJECTED, 1,
                        SRV_LABELS(reason));
}

void srv_request_await(srv_request *request, srv_job *job, void *work, void (*end_work)(void *))
{
    request->job = job;
    request->work = work;
    request->end_work = end_work;
    request->server->jobs++;
}

void srv_request_start(srv_request *request, srv_job *job, void *work, void (*end_work)(void *))
{
    srv_request_await(request, job, work, end_work);
    srv_executor_submit(request->server->executor, job);
}

void srv_request_drop_body(srv_request *request)
{
    free(request->body_block);
    request->body_block = request->body = NULL;
    request->body_room = 0;
}

const char *srv_format_name(srv_format format)
{
    return format == SRV_FORMAT_SAFETENSORS ? "safetensors" : "json";
}

static void count_errors(srv_metrics *m, const srv_account *a)
{
    for (int i = 0; i < a->measured_count; i++) {
        const srv_measured *measured = &a->measured[i];
        const char *const *backend = SRV_LABELS(measured->backend);
        srv_metrics_observe(m, SRV_METRIC_APPROXIMATION_ERROR, measured->relative_error, backend);
        srv_metrics_add(m, SRV_METRIC_APPROXIMATION_SAMPLES, (double)measured->rows, backend);
    }
}

static void learn(srv_server *server, const srv_account *a, srv_stage stage)
{
    const srv_account_cost *cost = &a->cost;
    srv_correction *correction = &server->cost.correction;
    srv_kind kind = cost->kind[stage];
    srv_correction_learn(correction, kind, a->n, cost->busy_ns[stage], cost->rates_ns[stage]);
    srv_metrics_set(server->metrics, SRV_METRIC_COST_CORRECTION,
                    srv_correction_factor(correction, kind, a->n),
                    SRV_LABELS(srv_stage_name(stage), kind.what, kind.model ? "model" : "raw",
                               srv_correction_decade_name(srv_correction_decade(a->n))));
}

/* Hold the prediction against what was measured, and learn from it. */
static void count_cost(srv_server *server, const srv_account *a)
{
    double busy_ns = 0;
    if (!(a->cost.predicted_ns > 0))
        return;
    for (srv_stage stage = 0; stage < SRV_STAGES; stage++) {
        busy_ns += a->cost.busy_ns[stage];
        learn(server, a, stage);
    }
    srv_metrics_observe(server->metrics, SRV_METRIC_COST_PREDICTION_RATIO,
                        busy_ns / a->cost.predicted_ns, SRV_LABELS(a->backend));
}

/* A plan answers no tokens, and is no work. */
static void count_work(const srv_request *request)
{
    srv_metrics *m = request->server->metrics;
    const srv_account *a = &request->account;
    const char *const *backend = SRV_LABELS(a->backend);
    if (!a->tokens)
        return;
    srv_metrics_add(m, SRV_METRIC_ROUTE, 1, SRV_LABELS(a->backend, a->rule));
    srv_metrics_observe(m, SRV_METRIC_REQUEST_PARSE, a->parse_s, SRV_LABELS(a->encoding));
    srv_metrics_observe(m, SRV_METRIC_REQUEST_QUEUE, a->queue_s, backend);
    srv_metrics_observe(m, SRV_METRIC_REQUEST_SEQUENCE_LENGTH, (double)a->n, backend);
    srv_metrics_add(m, SRV_METRIC_TOKENS, (double)a->tokens, backend);
    srv_metrics_observe(m, SRV_METRIC_REQUEST_COMPUTE, a->compute_s, backend);
    srv_metrics_observe(m, SRV_METRIC_REQUEST_SERIALIZE, a->serialize_s,
                        SRV_LABELS(a->answer_encoding));
    srv_metrics_observe(m, SRV_METRIC_REQUEST_WORKSPACE, (double)a->workspace_bytes, backend);
    count_cost(request->server, a);
    count_errors(m, a);
}

/* The job may have ended well or not; what counts is that nobody waits for it any more. */
static void settle_unwanted(srv_request *request, bool started)
{
    if (request->left) {
        srv_request_refuse(request, srv_problem_make(SRV_PROBLEM_CANCELLED, NULL,
                                                     "the client closed the connection"));
        srv_metrics_add(request->server->metrics, SRV_METRIC_REQUESTS_CANCELLED, 1,
                        SRV_LABELS(started ? "compute" : "queue"));
    } else if (request->drained &&
               request->answer.status == srv_problem_http(SRV_PROBLEM_CANCELLED)) {
        srv_request_refuse(request, srv_problem_make(SRV_PROBLEM_UNAVAILABLE, NULL,
                                                     "attnd shut down before the work was done; "
                                                     "ask another instance"));
    }
}

void srv_request_end_work(srv_request *request)
{
    bool started = request->job->started_ns != 0;
    request->job = NULL;
    request->end_work(request->work);
    request->work = NULL;
    request->server->jobs--;
    srv_request_drop_body(request);
    settle_unwanted(request, started);
    if (!request->left)
        count_work(request);
    /* What is left is the answer, which is no larger than what was reserved for it. */
    srv_share_resize(&request->share, &request->server->budget, srv_answer_bytes(&request->answer));
}
