/* GET /openapi.json: the description of the API, out of the very tables that dispatch requests and
 * check their options, so that it cannot say anything else. */
#include "server/analyze/question.h"
#include "server/attend/options.h"
#include "server/attend/source.h"
#include "server/endpoints/endpoints.h"
#include "server/endpoints/openapi_answers.h"
#include "server/models/registry.h"
#include "server/problem.h"
#include "server/request.h"
#include "server/version.h"

#include <string.h>

/* The routes whose bodies hold tensors: the schema of the body, and whose fields it takes. */
typedef struct question {
    srv_endpoint *endpoint;
    const char *schema;
    const char *const *tensors;
    int tensor_count;
    unsigned fields;
    bool answers_binary; /* when Accept asks for it */
} question;

static const question questions[] = {
    {srv_endpoint_attend, "Attend", srv_tensor_names, SRV_TENSOR_NAMES, SRV_FOR_ATTEND, true},
    {srv_endpoint_plan, "Plan", srv_tensor_names, SRV_TENSOR_NAMES, SRV_FOR_ATTEND | SRV_FOR_PLAN,
     true},
    {srv_endpoint_analyze, "Analyze", srv_analyze_tensors, SRV_ANALYZE_TENSORS, SRV_FOR_ANALYZE,
     false},
};

enum {
    QUESTIONS = sizeof questions / sizeof *questions
};

static const question *question_of(const srv_route *route)
{
    for (int i = 0; i < QUESTIONS; i++)
        if (questions[i].endpoint == route->endpoint)
            return &questions[i];
    return NULL;
}

static void print_tensor_schema(srv_text *t)
{
    srv_text_string(
        t, "\"Tensor\": {\"description\": \"Nested arrays of numbers, or a shape with data (flat "
           "or nested) or with base64 (little-endian, row-major).\", \"oneOf\": [{\"type\": "
           "\"array\"}, {\"type\": \"object\", \"required\": [\"shape\"], \"properties\": "
           "{\"shape\": {\"type\": \"array\", \"items\": {\"type\": \"integer\", \"minimum\": 1}, "
           "\"minItems\": 1, \"maxItems\": 4}, \"datatype\": {\"enum\": [\"FP32\", \"FP16\", "
           "\"BF16\", \"FP64\"], \"default\": \"FP32\"}, \"data\": {\"type\": \"array\"}, "
           "\"base64\": {\"type\": \"string\"}}, \"additionalProperties\": false}]}");
}

static void print_value_schemas(srv_text *t)
{
    print_tensor_schema(t);
    srv_text_string(t,
                    ",\n\"Causal\": {\"enum\": [false, true, \"any\"]},\n\"State\": {\"enum\": [");
    for (int i = 0; i <= SRV_MODEL_READY; i++)
        srv_text_format(t, "%s\"%s\"", i ? ", " : "", srv_model_state_name((srv_model_state)i));
    srv_text_string(t, "]}");
}

static void print_request_schema(srv_text *t, const question *asked)
{
    srv_text_format(t, ",\n\"%s\": {\"type\": \"object\", \"properties\": {", asked->schema);
    for (int i = 0; i < asked->tensor_count; i++)
        srv_text_format(t, "%s\"%s\": {\"$ref\": \"#/components/schemas/Tensor\"}", i ? ", " : "",
                        asked->tensors[i]);
    srv_options_describe(t, asked->fields);
    srv_text_string(t, "}, \"additionalProperties\": false}");
}

static void print_error_schema(srv_text *t)
{
    srv_text_string(t, ",\n\"Error\": {\"type\": \"object\", \"required\": [\"error\"], "
                       "\"properties\": {\"error\": {\"type\": \"object\", \"required\": "
                       "[\"type\", \"message\", \"request_id\"], \"properties\": {\"type\": "
                       "{\"enum\": [");
    for (int i = 0; i < SRV_PROBLEM_COUNT; i++) {
        const char *type = srv_problem_type((srv_problem_id)i);
        bool repeated = i > 0 && strcmp(type, srv_problem_type((srv_problem_id)(i - 1))) == 0;
        if (!repeated)
            srv_text_format(t, "%s\"%s\"", i ? ", " : "", type);
    }
    srv_text_string(t, "]}, \"message\": {\"type\": \"string\"}, \"param\": {\"type\": "
                       "\"string\"}, \"request_id\": {\"type\": \"string\"}}}}}");
}

/* Models are changed by small bodies in JSON alone, as the Open Inference Protocol has them. */
static void print_repository_schemas(srv_text *t)
{
    srv_text_string(
        t, ",\n\"Index\": {\"type\": \"object\", \"properties\": {\"ready\": {\"type\": "
           "\"boolean\", \"default\": false}}, \"additionalProperties\": false},\n"
           "\"Load\": {\"type\": \"object\", \"properties\": {\"parameters\": {\"type\": "
           "\"object\", \"maxProperties\": 0}}, \"additionalProperties\": false},\n"
           "\"Unload\": {\"type\": \"object\", \"properties\": {\"parameters\": {\"type\": "
           "\"object\", \"properties\": {\"unload_dependents\": {\"type\": \"boolean\"}}, "
           "\"additionalProperties\": false}}, \"additionalProperties\": false},\n"
           "\"Sentence\": {\"type\": \"object\", \"required\": [\"error\"], \"properties\": "
           "{\"error\": {\"type\": \"string\"}}}");
}

static void print_repository_body(srv_text *t, const srv_route *route)
{
    const char *action = strrchr(route->path, '/') + 1;
    const char *schema = strcmp(action, "index") == 0  ? "Index"
                         : strcmp(action, "load") == 0 ? "Load"
                                                       : "Unload";
    srv_text_format(t,
                    "\"requestBody\": {\"content\": {\"" SRV_JSON_TYPE
                    "\": {\"schema\": {\"$ref\": \"#/components/schemas/%s\"}}}}, ",
                    schema);
}

static void print_binary(srv_text *t)
{
    srv_text_string(t, ", \"" SRV_SAFETENSORS_TYPE "\": {\"schema\": {\"type\": \"string\", "
                       "\"contentMediaType\": \"" SRV_SAFETENSORS_TYPE "\"}}");
}

static void print_body(srv_text *t, const char *schema)
{
    srv_text_format(t,
                    "\"requestBody\": {\"required\": true, \"content\": {\"" SRV_JSON_TYPE
                    "\": {\"schema\": {\"$ref\": \"#/components/schemas/%s\"}}",
                    schema);
    print_binary(t);
    srv_text_string(t, "}}, ");
}

static void print_refusal(srv_text *t, const char *schema, srv_problem_id id)
{
    srv_text_format(t,
                    ", \"%d\": {\"description\": \"%s\", \"content\": {\"" SRV_JSON_TYPE
                    "\": {\"schema\": {\"$ref\": \"#/components/schemas/%s\"}}}}",
                    srv_problem_http(id), srv_problem_type(id), schema);
}

/* The refusals that a route with work can give, one entry a status. */
static void print_refusals(srv_text *t, const char *schema)
{
    int last = 0;
    for (int i = 0; i < SRV_PROBLEM_COUNT; i++) {
        int http = srv_problem_http((srv_problem_id)i);
        if (http == last || http == 499)
            continue;
        last = http;
        print_refusal(t, schema, (srv_problem_id)i);
    }
}

static void print_parameter(srv_text *t)
{
    srv_text_string(t, "\"parameters\": [{\"name\": \"m\", \"in\": \"path\", \"required\": true, "
                       "\"description\": \"A model's name.\", \"schema\": {\"type\": \"string\", "
                       "\"pattern\": \"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$\"}}], ");
}

static void print_query(srv_text *t, const question *asked)
{
    srv_text_string(t, "\"description\": \"The query string is for a safetensors body; a JSON body "
                       "carries its own fields.\", \"parameters\": [");
    srv_options_describe_query(t, asked->fields);
    if (asked->fields & SRV_FOR_ATTEND)
        srv_text_string(t, ", {\"name\": \"key_mask\", \"in\": \"query\", \"schema\": "
                           "{\"type\": \"string\", \"pattern\": \"^[01](,[01])*$\"}}");
    srv_text_string(t, "], ");
}

static void print_done(srv_text *t, const srv_route *route, const question *asked)
{
    const char *type = route->endpoint == srv_endpoint_metrics ? "text/plain" : SRV_JSON_TYPE;
    srv_text_format(
        t, "\"200\": {\"description\": \"done\", \"content\": {\"%s\": {\"schema\": ", type);
    srv_openapi_type(t, route->answer);
    srv_text_string(t, "}");
    if (asked && asked->answers_binary)
        print_binary(t);
    srv_text_string(t, "}}");
}

static void print_responses(srv_text *t, const srv_route *route, const question *asked)
{
    bool work = strcmp(route->method, "POST") == 0;
    srv_text_string(t, "\"responses\": {");
    print_done(t, route, asked);
    if (work)
        print_refusals(t, asked ? "Error" : "Sentence");
    else if (strchr(route->path, '{'))
        print_refusal(t, "Error", SRV_PROBLEM_NOT_FOUND);
    else if (route->endpoint == srv_endpoint_ready)
        print_refusal(t, route->answer, SRV_PROBLEM_UNAVAILABLE);
    srv_text_string(t, "}");
}

static void print_operation(srv_text *t, const srv_route *route)
{
    bool work = strcmp(route->method, "POST") == 0;
    const question *asked = question_of(route);
    srv_text_format(t, "\"%s\": {\"%s\": {\"summary\": ", route->path, work ? "post" : "get");
    srv_text_json(t, route->summary);
    srv_text_string(t, ", ");
    if (strchr(route->path, '{'))
        print_parameter(t);
    if (asked) {
        print_query(t, asked);
        print_body(t, asked->schema);
    } else if (work) {
        print_repository_body(t, route);
    }
    print_responses(t, route, asked);
    srv_text_string(t, "}}");
}

void srv_endpoint_openapi(srv_request *request)
{
    srv_text t = SRV_TEXT_EMPTY;
    srv_text_format(&t,
                    "{\"openapi\": \"3.1.0\", \"info\": {\"title\": \"attnd\", \"version\": "
                    "\"%s\", \"summary\": \"Attention over HTTP\"},\n\"paths\": {",
                    srv_version);
    for (const srv_route *route = srv_routes; route->path; route++) {
        if (route != srv_routes)
            srv_text_string(&t, ",\n");
        print_operation(&t, route);
    }
    srv_text_string(&t, "},\n\"components\": {\"schemas\": {");
    print_value_schemas(&t);
    for (int i = 0; i < QUESTIONS; i++)
        print_request_schema(&t, &questions[i]);
    print_repository_schemas(&t);
    print_error_schema(&t);
    srv_openapi_answers(&t);
    srv_text_string(&t, "}}}\n");
    srv_answer_text(&request->answer, 200, SRV_JSON_TYPE, &t);
}
