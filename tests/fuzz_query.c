/* libFuzzer target: a query string read into options, sizes and a plan.
 *
 * The input is the query as a client may send it, `name=value&name=value`, without percent signs
 * decoded. Whatever is accepted must come out the same when the values are written as JSON and read
 * back: the two forms of a request may not differ in what they can say. There are the models of
 * tests/inline/models.h. */
#include "server/attend/call.h"
#include "server/attend/decision.h"
#include "tests/inline/models.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAIRS = 64,
    PHASES = 1000, /* that are looked at: a long stack has millions, all alike */
};

typedef struct rule {
    const char *path, *kind;
    double least, most;
} rule;

static const rule rules[] = {
#define FIELD(id, path, kind, least, most, backends, routes) {path, #kind, least, most},
#include "server/attend/fields.def"
#undef FIELD
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what, const char *which)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, which);
        abort();
    }
}

/* Cut the text at & and =, in place. */
static int split(char *text, srv_pair pairs[PAIRS])
{
    int count = 0;
    for (char *at = text; at && count < PAIRS; count++) {
        char *name = strsep(&at, "&");
        char *equals = strchr(name, '=');
        pairs[count] = (srv_pair){name, equals ? equals + 1 : ""};
        if (equals)
            *equals = '\0';
    }
    return count;
}

static void check_error(const attn_error *error)
{
    require(error->status == ATTN_INVALID || error->status == ATTN_UNSUPPORTED ||
                error->status == ATTN_NOT_FOUND || error->status == ATTN_INFEASIBLE,
            "odd status", error->message);
    require(error->message[0] != '\0', "no message", error->param);
}

static json_t *integers(const srv_value *value)
{
    json_t *array = json_array();
    for (size_t i = 0; i < value->integers.count; i++)
        json_array_append_new(array, json_integer(value->integers.data[i]));
    return array;
}

static json_t *spelled(const rule *r, const srv_value *value)
{
    if (strcmp(r->kind, "BOOL") == 0)
        return json_boolean(value->boolean);
    if (strcmp(r->kind, "INT") == 0)
        return json_integer(value->integer);
    if (strcmp(r->kind, "REAL") == 0)
        return json_real(value->real);
    return strcmp(r->kind, "STRING") == 0 ? json_string(value->string) : integers(value);
}

/* Put `value` where `path` says, "window" or "params.window". */
static void place(json_t *document, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    if (!dot) {
        json_object_set_new(document, path, value);
        return;
    }
    char group[16];
    snprintf(group, sizeof group, "%.*s", (int)(dot - path), path);
    if (!json_object_get(document, group))
        json_object_set_new(document, group, json_object());
    json_object_set_new(json_object_get(document, group), dot + 1, value);
}

static bool same(const rule *r, const srv_value *a, const srv_value *b)
{
    if (a->given != b->given || !a->given)
        return a->given == b->given;
    if (strcmp(r->kind, "BOOL") == 0)
        return a->boolean == b->boolean;
    if (strcmp(r->kind, "INT") == 0)
        return a->integer == b->integer && (double)a->integer >= r->least &&
               (double)a->integer <= r->most;
    if (strcmp(r->kind, "REAL") == 0)
        return a->real == b->real && a->real >= r->least && a->real <= r->most;
    if (strcmp(r->kind, "STRING") == 0)
        return strcmp(a->string, b->string) == 0;
    size_t bytes = a->integers.count * sizeof *a->integers.data;
    return a->integers.count == b->integers.count &&
           memcmp(a->integers.data, b->integers.data, bytes) == 0;
}

/* Strings that are not UTF-8 cannot be said in JSON, and need not be. */
static bool can_be_spelled(const srv_options *options)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        if (!options->values[i].given || strcmp(rules[i].kind, "STRING") != 0)
            continue;
        json_t *string = json_string(options->values[i].string);
        json_decref(string);
        if (!string)
            return false;
    }
    return true;
}

static void check_round_trip(const srv_options *options)
{
    if (!can_be_spelled(options))
        return;
    json_t *document = json_object();
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if (options->values[i].given)
            place(document, rules[i].path, spelled(&rules[i], &options->values[i]));
    srv_options again;
    attn_error error = {0};
    attn_status status = srv_options_read(&again, document, SRV_FOR_ALL, &error);
    require(status == ATTN_OK, "JSON refuses what the query may say", error.message);
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        require(same(&rules[i], &options->values[i], &again.values[i]),
                "JSON and query differ, or the value is out of range", rules[i].path);
    srv_options_free(&again);
    json_decref(document);
}

static void check_plan(const srv_decision *decision, const srv_call *call)
{
    const attn_program *program = srv_decision_program(decision);
    require(call->longest >= 0 && call->longest <= call->shape.m, "longest", "out of range");
    require(attn_program_phases(program) >= 1, "phases", "number");
    for (int p = 0; p < attn_program_phases(program) && p < PHASES; p++) {
        attn_phase phase = attn_program_phase(program, p);
        require(phase.tiles >= 1 && phase.tile_ns >= 0 && isfinite(phase.tile_ns), "phase",
                phase.name);
    }
    srv_text text = SRV_TEXT_EMPTY;
    srv_decision_print(decision, &text);
    json_t *route = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    require(route && json_object_get(route, "considered"), "the route is not JSON", text.data);
    json_decref(route);
    srv_text_free(&text);
}

/* A model that is not there, or none: a raw call. */
static attn_status read_call(srv_call *call, srv_model **model, const srv_options *options,
                             attn_error *error)
{
    srv_problem problem;
    const char *name = srv_options_string(options, SRV_FIELD_MODEL, NULL);
    *model = name ? srv_registry_acquire(inline_models(), name, &problem) : NULL;
    return *model ? srv_call_from_model_shape(call, srv_model_weights(*model), options, error)
                  : srv_call_from_shape(call, &(srv_inputs){0}, options, error);
}

static void decide(const srv_options *options)
{
    static srv_server server = {
        .workers = 2,
        .config = {.short_below = 4096, .long_above = 32768},
        .machine = {.cores = 2, .memory_bytes = (size_t)1 << 33},
    };
    server.machine.rates = attn_rates_default();
    srv_call call;
    attn_error error = {0};
    srv_inputs inputs = {0};
    static srv_decision decision;
    srv_model *model;
    attn_status status = read_call(&call, &model, options, &error);
    if (status == ATTN_OK)
        status = srv_decide(&decision, &server, &call, &inputs, options, true, &error);
    if (status == ATTN_OK)
        check_plan(&decision, &call);
    else
        check_error(&error);
    srv_decision_free(&decision);
    srv_model_release(model);
    srv_call_free(&call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    srv_pair pairs[PAIRS];
    int count = split(text, pairs);
    srv_options options;
    attn_error error = {0};
    if (srv_options_read_query(&options, pairs, count, SRV_FOR_ALL, &error) == ATTN_OK) {
        check_round_trip(&options);
        decide(&options);
    } else {
        check_error(&error);
    }
    srv_options_free(&options);
    free(text);
    return 0;
}
