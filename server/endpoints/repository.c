/* The model repository extension of the Open Inference Protocol: list, load and unload models while
 * the daemon serves. A load reads gigabytes and an unload waits for whoever uses the model, so both
 * are changes of the registry (server/models/registry.h) that the request waits for. */
#include "server/endpoints/endpoints.h"
#include "server/loop.h"
#include "server/models/registry.h"
#include "server/request.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    BODY_MAX_BYTES = 64 << 10 /* parsed on the loop thread */
};

typedef struct control {
    srv_model_change change; /* first: the registry hands it back */
    srv_request *request;
} control;

static bool refuse(srv_request *request, srv_problem problem)
{
    srv_request_refuse(request, problem);
    return false;
}

static bool is_allowed(srv_request *request)
{
    return srv_config_is_explicit(&request->server->config) ||
           refuse(request, srv_problem_make(SRV_PROBLEM_FORBIDDEN, NULL,
                                            "models are not changed on request, because "
                                            "model_control is none; start attnd with "
                                            "model_control=explicit to allow it"));
}

static bool refuse_body(srv_request *request, const json_error_t *fault)
{
    if (errno == ENOMEM) /* whatever jansson blames then */
        return refuse(request, srv_problem_from(ATTN_NO_MEMORY, NULL));
    return refuse(request, srv_problem_make(SRV_PROBLEM_MALFORMED, NULL,
                                            "the body is neither empty nor a JSON object: %.160s",
                                            fault->text));
}

/* The body, which may be empty, as an object that the caller owns. */
static bool read_body(srv_request *request, json_t **document)
{
    json_error_t fault = {.text = "expected an object"};
    if (request->format != SRV_FORMAT_JSON)
        return refuse(request, srv_problem_make(SRV_PROBLEM_MEDIA_TYPE, "Content-Type",
                                                "expected " SRV_JSON_TYPE));
    if (request->body_length > BODY_MAX_BYTES)
        return refuse(request, srv_problem_make(SRV_PROBLEM_TOO_LARGE, NULL,
                                                "the body has %zu bytes, expected at most %d",
                                                request->body_length, BODY_MAX_BYTES));
    errno = 0;
    *document = request->body_length ? json_loadb(request->body, request->body_length,
                                                  JSON_REJECT_DUPLICATES, &fault)
                                     : json_object();
    if (json_is_object(*document) && errno != ENOMEM)
        return true;
    json_decref(*document);
    return refuse_body(request, &fault);
}

/* Nothing but `known`, and that of the type that `is_right` tells. */
static bool check_members(srv_request *request, const json_t *object, const char *known,
                          const char *expected, bool (*is_right)(const json_t *))
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (strcmp(key, known) != 0)
            return refuse(request,
                          srv_problem_make(SRV_PROBLEM_INVALID, NULL,
                                           "%.40s is not a known field; known is %s", key, known));
        if (!is_right(value))
            return refuse(request, srv_problem_make(SRV_PROBLEM_INVALID, known, "%s: expected %s",
                                                    known, expected));
    }
    return true;
}

/* --- index ----------------------------------------------------------------------------------- */

static bool is_boolean(const json_t *value)
{
    return json_is_boolean(value);
}

typedef struct index_list {
    srv_text text;
    const char *separator;
    bool ready_only;
} index_list;

static void list(void *context, const srv_model_status *status)
{
    index_list *index = context;
    if (index->ready_only && status->state != SRV_MODEL_READY)
        return;
    srv_text_string(&index->text, index->separator);
    index->separator = ", ";
    srv_text_string(&index->text, "{\"name\": ");
    srv_text_json(&index->text, status->name);
    srv_text_format(&index->text, ", \"version\": \"1\", \"state\": \"%s\", \"reason\": ",
                    srv_model_state_name(status->state));
    srv_text_json(&index->text, status->reason);
    srv_text_string(&index->text, "}");
}

void srv_endpoint_repository_index(srv_request *request)
{
    json_t *document;
    index_list index = {SRV_TEXT_EMPTY, "", false};
    if (!is_allowed(request) || !read_body(request, &document))
        return;
    if (check_members(request, document, "ready", "true or false", is_boolean)) {
        index.ready_only = json_is_true(json_object_get(document, "ready"));
        srv_text_string(&index.text, "[");
        srv_registry_visit(request->server->registry, NULL, list, &index);
        srv_text_string(&index.text, "]\n");
        srv_answer_text(&request->answer, 200, SRV_JSON_TYPE, &index.text);
    }
    json_decref(document);
}

/* --- load and unload ------------------------------------------------------------------------- */

/* A load can be told nothing: a model is what its folder holds. */
static bool is_empty(const json_t *value)
{
    return json_is_object(value) && json_object_size(value) == 0;
}

/* Clients of Triton send this one, and no model here has dependents. */
static bool is_of_unload(const json_t *value)
{
    size_t known = json_object_get(value, "unload_dependents") ? 1 : 0;
    return json_is_object(value) && json_object_size(value) == known;
}

static bool check_body(srv_request *request, srv_model_action action)
{
    json_t *document;
    if (!read_body(request, &document))
        return false;
    bool good = action == SRV_MODEL_LOAD
                    ? check_members(request, document, "parameters", "an empty object", is_empty)
                    : check_members(request, document, "parameters",
                                    "an object with nothing but unload_dependents", is_of_unload);
    json_decref(document);
    return good;
}

static bool read_name(srv_request *request, char name[SRV_MODEL_NAME_BYTES])
{
    char found[SRV_PATH_BYTES];
    srv_route_parameter(request->route, request->path, found, sizeof found);
    if (!srv_model_name_is_valid(found))
        return refuse(request, srv_problem_make(SRV_PROBLEM_INVALID, "model",
                                                "\"%.128s\" is no name of a model, which is 1 to "
                                                "128 of A-Za-z0-9._- and does not start with a dot",
                                                found));
    strcpy(name, found);
    return true;
}

static void on_finished(srv_model_change *change)
{
    srv_request *request = ((control *)(void *)change)->request;
    srv_loop_finished(request->server->loop, request);
}

static void end_work(void *work)
{
    control *c = work;
    const srv_model_change *change = &c->change;
    srv_problem problem = srv_problem_from(change->error.status, &change->error);
    srv_text text = SRV_TEXT_EMPTY;
    if (change->unknown)
        problem = srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                                   "there is no model \"%.128s\"; POST /v2/repository/index lists "
                                   "those there are",
                                   change->name);
    if (change->unknown || change->error.status != ATTN_OK) {
        srv_request_refuse(c->request, problem);
    } else {
        srv_text_string(&text, "{}\n");
        srv_answer_text(&c->request->answer, 200, SRV_JSON_TYPE, &text);
    }
    free(c);
}

static void start(srv_request *request, srv_model_action action)
{
    char name[SRV_MODEL_NAME_BYTES];
    if (!is_allowed(request) || !read_name(request, name) || !check_body(request, action))
        return;
    control *c = calloc(1, sizeof *c);
    if (!c) {
        srv_request_refuse(request, srv_problem_from(ATTN_NO_MEMORY, NULL));
        return;
    }
    c->request = request;
    c->change.action = action;
    c->change.finished = on_finished;
    strcpy(c->change.name, name);
    srv_request_await(request, &c->change.job, c, end_work);
    srv_registry_change(request->server->registry, &c->change);
}

void srv_endpoint_repository_load(srv_request *request)
{
    start(request, SRV_MODEL_LOAD);
}

void srv_endpoint_repository_unload(srv_request *request)
{
    start(request, SRV_MODEL_UNLOAD);
}
