/* GET /v1/models, GET /v1/models/{m} and GET /v2: what there is to ask. */
#include "server/endpoints/endpoints.h"
#include "server/models/describe.h"
#include "server/request.h"
#include "server/version.h"

typedef struct listing {
    srv_text text;
    const char *separator;
} listing;

static void list(void *context, const srv_model_status *status)
{
    listing *l = context;
    srv_text_string(&l->text, l->separator);
    l->separator = ",\n";
    srv_model_describe(&l->text, status);
}

void srv_endpoint_models(srv_request *request)
{
    listing l = {SRV_TEXT_EMPTY, ""};
    srv_text_string(&l.text, "{\"models\": [");
    srv_registry_visit(request->server->registry, NULL, list, &l);
    srv_text_string(&l.text, "]}\n");
    srv_answer_text(&request->answer, 200, SRV_JSON_TYPE, &l.text);
}

void srv_endpoint_model(srv_request *request)
{
    listing l = {SRV_TEXT_EMPTY, ""};
    char name[SRV_PATH_BYTES];
    srv_route_parameter(request->route, request->path, name, sizeof name);
    if (srv_registry_visit(request->server->registry, name, list, &l) == 0) {
        srv_request_refuse(request, srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                                                     "there is no model \"%.128s\"; GET "
                                                     "/v1/models lists those there are",
                                                     name));
        return;
    }
    srv_text_string(&l.text, "\n");
    srv_answer_text(&request->answer, 200, SRV_JSON_TYPE, &l.text);
}

void srv_endpoint_server(srv_request *request)
{
    const srv_server *server = request->server;
    const attn_machine *machine = &server->machine;
    bool is_explicit = srv_config_is_explicit(&server->config);
    srv_text t = SRV_TEXT_EMPTY;
    srv_text_format(&t,
                    "{\"name\": \"attnd\", \"version\": \"%s\", \"extensions\": [%s],\n"
                    "\"machine\": {\"isa\": \"%s\", \"cores\": %d, \"workers\": %d, "
                    "\"memory_limit_bytes\": %zu, \"vector_scan\": %s}}\n",
                    srv_version, is_explicit ? "\"model_repository\"" : "",
                    attn_isa_name(machine->isa), machine->cores, server->workers,
                    server->budget.limit, machine->isa == ATTN_ISA_SCALAR ? "false" : "true");
    srv_answer_text(&request->answer, 200, SRV_JSON_TYPE, &t);
}
