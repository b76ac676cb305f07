/* A model in JSON: every backend with what it uses, and names that need escaping. */
#include "server/models/describe.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The description, checked to be JSON. The caller owns it. */
static json_t *describe(const srv_model_status *status)
{
    srv_text text = SRV_TEXT_EMPTY;
    json_error_t fault = {0};
    srv_model_describe(&text, status);
    json_t *document = json_loads(text.data ? text.data : "", JSON_REJECT_DUPLICATES, &fault);
    CHECK(document != NULL, "%s: %s", fault.text, text.data);
    srv_text_free(&text);
    return document;
}

/* `expected` holds what stands at the dotted path, as JSON with its keys sorted. */
static void check_at(const json_t *document, const char *path, const char *expected)
{
    char keys[64], *rest = keys;
    snprintf(keys, sizeof keys, "%s", path);
    for (const char *key; (key = strtok_r(rest, ".", &rest));)
        document = json_is_array(document) ? json_array_get(document, (size_t)atoi(key))
                                           : json_object_get(document, key);
    char *found = json_dumps(document, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(found && strcmp(found, expected) == 0, "%s is %s, expected %s", path, found, expected);
    free(found);
}

static attn_model_backend backend(const char *name)
{
    attn_model_backend made = {.name = name};
    attn_mix_params_init(&made.mix, 64);
    return made;
}

static void each_backend_shows_what_it_uses(void)
{
    attn_model_backend backends[] = {
        backend("exact"),     backend("window"),    backend("sparse"), backend("linformer"),
        backend("linformer"), backend("performer"), backend("hybrid"), backend("mamba"),
        backend("sparse"),    backend("linformer")};
    backends[0].trained = true;
    backends[1].mix.window = 128;
    backends[4].mix.projection = ATTN_GIVEN;
    backends[4].mix.k = 64;
    backends[4].mix.projection_length = 32768;
    backends[5].mix.norm = ATTN_NORM_SQRT;
    backends[5].mix.seed = 7;
    backends[6].mix.window = 512;
    backends[8].mix.pattern = ATTN_FIXED;
    backends[8].mix.stride = 16;
    backends[9].mix.projection = ATTN_GAUSSIAN;
    backends[9].mix.seed = 5;
    static const char *const expected[][2] = {
        {"{}", "{}"},
        {"{\"window\":128}", "{}"},
        {"{\"pattern\":\"strided\",\"stride\":null,\"summary\":1}", "{}"},
        {"{\"k\":256,\"projection\":\"mean\"}", "{}"},
        {"{\"k\":64,\"projection\":\"given\"}", "{\"k\":64,\"seq_len\":32768}"},
        {"{\"features\":256,\"norm\":\"sqrt\",\"orthogonal\":true,\"seed\":7}", "{}"},
        {"{\"window\":512}", "{}"},
        {"{}", "{}"},
        {"{\"pattern\":\"fixed\",\"stride\":16,\"summary\":1}", "{}"},
        {"{\"k\":256,\"projection\":\"gaussian\",\"seed\":5}", "{}"},
    };
    const int count = sizeof backends / sizeof *backends;
    attn_model_info info = {.type = "layer", .backend_count = count, .backends = backends};
    json_t *document = describe(
        &(srv_model_status){.name = "m", .state = SRV_MODEL_READY, .reason = "", .info = &info});
    for (int i = 0; i < count; i++) {
        char path[64], name[64];
        snprintf(path, sizeof path, "backends.%d.params", i);
        check_at(document, path, expected[i][0]);
        snprintf(path, sizeof path, "backends.%d.limits", i);
        check_at(document, path, expected[i][1]);
        snprintf(path, sizeof path, "backends.%d.name", i);
        snprintf(name, sizeof name, "\"%s\"", backends[i].name);
        check_at(document, path, name);
        snprintf(path, sizeof path, "backends.%d.trained", i);
        check_at(document, path, i == 0 ? "true" : "false");
    }
    json_decref(document);
}

static void sizes_and_lists_are_shown(void)
{
    static const char *const adapters[] = {"a", "b\"c"};
    static const char *const warnings[] = {"line\nbreak", "\xff"};
    static const char *const causal[] = {"false", "true", "\"any\""};
    attn_model_backend exact = backend("exact");
    for (int i = 0; i < 3; i++) {
        attn_model_info info = {.type = "stack",
                                .hidden = 256,
                                .layers = 3,
                                .heads = 8,
                                .kv_heads = 2,
                                .head_dim = 32,
                                .causal = (attn_causality)i,
                                .backend_count = 1,
                                .backends = &exact,
                                .adapter_count = 2,
                                .adapters = adapters,
                                .mapped_bytes = (size_t)5 << 32,
                                .owned_bytes = 1,
                                .warning_count = 2,
                                .warnings = warnings};
        json_t *document = describe(&(srv_model_status){
            .name = "m", .state = SRV_MODEL_READY, .reason = "a \"reason\"", .info = &info});
        check_at(document, "type", "\"stack\"");
        check_at(document, "hidden_size", "256");
        check_at(document, "layers", "3");
        check_at(document, "heads", "8");
        check_at(document, "kv_heads", "2");
        check_at(document, "head_dim", "32");
        check_at(document, "causal", causal[i]);
        check_at(document, "adapters", "[\"a\",\"b\\\"c\"]");
        check_at(document, "warnings", "[\"line\\nbreak\",\"\xef\xbf\xbd\"]");
        check_at(document, "bytes", "{\"mapped\":21474836480,\"owned\":1}");
        check_at(document, "reason", "\"a \\\"reason\\\"\"");
        json_decref(document);
    }
}

static void what_is_not_loaded_is_only_named(void)
{
    static const char *const names[] = {"UNAVAILABLE", "LOADING"};
    for (int i = 0; i < 2; i++) {
        char state[32];
        json_t *document = describe(
            &(srv_model_status){.name = "m", .state = (srv_model_state)i, .reason = "no \xc3\xa4"});
        snprintf(state, sizeof state, "\"%s\"", names[i]);
        check_at(document, "state", state);
        check_at(document, "reason", "\"no \xc3\xa4\"");
        CHECK(json_object_size(document) == 3, "%zu members", json_object_size(document));
        json_decref(document);
    }
}

int main(void)
{
    return test_main("models_describe",
                     (const test_case[]){
                         {"each backend shows what it uses", each_backend_shows_what_it_uses},
                         {"sizes and lists are shown", sizes_and_lists_are_shown},
                         {"what is not loaded is only named", what_is_not_loaded_is_only_named},
                         {NULL, NULL},
                     });
}
