/* What operations ask: health, readiness and metrics. */
#include "server/endpoints/endpoints.h"
#include "server/models/registry.h"
#include "server/process_metrics.h"
#include "server/request.h"

/* For load balancers and metrics, so that both hear the same. */
static bool is_ready(const srv_server *server)
{
    return !server->draining && srv_registry_is_settled(server->registry);
}

void srv_endpoint_live(srv_request *request)
{
    srv_text text = SRV_TEXT_EMPTY;
    srv_text_string(&text, "{\"live\": true}\n");
    srv_answer_text(&request->answer, 200, SRV_JSON_TYPE, &text);
}

void srv_endpoint_ready(srv_request *request)
{
    bool ready = is_ready(request->server);
    srv_text text = SRV_TEXT_EMPTY;
    srv_text_format(&text, "{\"live\": true, \"ready\": %s}\n", ready ? "true" : "false");
    srv_answer_text(&request->answer, ready ? 200 : 503, SRV_JSON_TYPE, &text);
}

static void set_model_gauges(void *context, const srv_model_status *model)
{
    srv_metrics *m = context;
    const char *const *labels = SRV_LABELS(model->name);
    size_t bytes = model->info ? model->info->mapped_bytes + model->info->owned_bytes : 0;
    srv_metrics_set(m, SRV_METRIC_MODEL_LOADED, model->info != NULL, labels);
    srv_metrics_set(m, SRV_METRIC_MODEL_BYTES, (double)bytes, labels);
}

/* Gauges are read off at scrape time; everything else was counted as it happened. */
static void update_gauges(const srv_server *server)
{
    srv_metrics *m = server->metrics;
    srv_load load = srv_executor_load(server->executor);
    srv_metrics_set(m, SRV_METRIC_QUEUE_DEPTH, (double)(load.waiting + load.active), NULL);
    srv_metrics_set(m, SRV_METRIC_QUEUE_COST, load.remaining_ns * 1e-9, NULL);
    srv_metrics_set(m, SRV_METRIC_READY, is_ready(server), NULL);
    srv_metrics_set(m, SRV_METRIC_DRAINING, server->draining, NULL);
    srv_metrics_set(m, SRV_METRIC_HTTP_REQUESTS_IN_FLIGHT, (double)server->in_flight - 1, NULL);
    srv_metrics_set(m, SRV_METRIC_HTTP_CONNECTIONS, (double)server->peers.count, NULL);
    srv_metrics_set(m, SRV_METRIC_MEMORY_RESERVED, (double)atomic_load(&server->budget.reserved),
                    NULL);
    srv_metrics_clear(m, SRV_METRIC_MODEL_LOADED);
    srv_metrics_clear(m, SRV_METRIC_MODEL_BYTES);
    srv_registry_visit(server->registry, NULL, set_model_gauges, m);
    srv_process_metrics_update(m);
}

void srv_endpoint_metrics(srv_request *request)
{
    update_gauges(request->server);
    size_t length;
    char *data = srv_metrics_print(request->server->metrics, &length);
    request->answer.status = srv_answer_add(&request->answer, data, length) ? 200 : 503;
    request->answer.content_type = SRV_METRICS_CONTENT_TYPE;
}
