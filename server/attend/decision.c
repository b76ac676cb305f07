/* The names a client may give, the plans behind them, and the answer's account of the choice. */
#include "server/attend/decision.h"

#include <stdio.h>
#include <string.h>

/* Names of the contract that are no mixers: a client may ask for them and hears why not. */
static const char *const model_backends[] = {"mamba", "hybrid", NULL};

static const char why_missing[] = "needs the weights of a loaded model, which a raw call has not";

static attn_status check_name(const char *name, attn_error *error)
{
    if (attn_mixer_find(name))
        return ATTN_OK;
    for (const char *const *known = model_backends; *known; known++)
        if (strcmp(*known, name) == 0)
            return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "backend",
                          "backend is \"%.32s\", expected auto, exact, window, sparse, linformer, "
                          "performer, mamba or hybrid",
                          name);
}

static attn_status check_tensors(const char *name, const srv_inputs *in, attn_error *error)
{
    const struct {
        const char *name, *backend;
        const srv_tensor *tensor;
    } extra[] = {
        {"e", "linformer", in->e}, {"f", "linformer", in->f}, {"omega", "performer", in->omega}};
    for (size_t i = 0; i < 3; i++)
        if (extra[i].tensor && strcmp(extra[i].backend, name) != 0)
            return attn_error_set(error, ATTN_INVALID, extra[i].name,
                                  "%s is used by %s, not by %s; leave it out", extra[i].name,
                                  extra[i].backend, name);
    return ATTN_OK;
}

/* The backend the client named, checked, or NULL for auto. */
static attn_status read_backend(const srv_inputs *inputs, const srv_options *options,
                                const char **backend, attn_error *error)
{
    *backend = NULL;
    const char *name = srv_options_string(options, SRV_FIELD_BACKEND, "auto");
    if (strcmp(name, "auto") == 0)
        return ATTN_OK;
    attn_status status = check_name(name, error);
    if (status == ATTN_OK)
        status = srv_options_check_backend(options, name, error);
    if (status == ATTN_OK)
        status = check_tensors(name, inputs, error);
    if (status != ATTN_OK)
        return status;
    if (!attn_mixer_find(name))
        return attn_error_set(error, ATTN_UNSUPPORTED, "backend", "%s %s; use exact or auto", name,
                              why_missing);
    *backend = name;
    return ATTN_OK;
}

/* Linformer stands in for exact attention only where a projection covers the sequence; otherwise it
 * has to be asked for by name. */
static bool lacks_projection(const attn_mixer *mixer, const srv_call *call)
{
    const attn_mix_params *p = &call->params;
    return strcmp(mixer->name, "linformer") == 0 &&
           (p->projection != ATTN_GIVEN || p->projection_length < call->longest);
}

/* Plan one mixer. Only a fault of the request itself ends the whole decision. */
static attn_status consider(srv_decision *decision, attn_program **program, const attn_mixer *mixer,
                            const srv_server *server, const srv_call *call, const char *backend,
                            attn_error *error)
{
    attn_candidate *candidate = &decision->candidates[decision->count++];
    bool named = backend && strcmp(backend, mixer->name) == 0;
    *candidate = (attn_candidate){.mixer = mixer, .trained = (mixer->traits & ATTN_EXACT) != 0};
    attn_error refusal = {0};
    attn_status status = attn_program_attend(program, &server->machine, mixer, &call->params,
                                             &call->shape, &call->sampling, &refusal);
    if (status == ATTN_OK && !named && lacks_projection(mixer, call)) {
        status = ATTN_UNSUPPORTED;
        snprintf(refusal.message, sizeof refusal.message,
                 "no projection e in the request covers %lld keys", (long long)call->longest);
    }
    if (status == ATTN_OK) {
        candidate->eligible = true;
        candidate->predicted_ms = attn_program_ns(*program, server->workers) * 1e-6;
        candidate->predicted_bytes = attn_program_bytes(*program, server->workers);
        return ATTN_OK;
    }
    snprintf(candidate->why_not, sizeof candidate->why_not, "%.159s", refusal.message);
    /* What a backend that nobody named makes of its parameters is no fault of the request. */
    bool blameless = !named && !(mixer->traits & ATTN_EXACT) && status != ATTN_NO_MEMORY;
    if (status == ATTN_UNSUPPORTED || blameless)
        return ATTN_OK;
    return attn_error_set(error, status, refusal.param, "%s", refusal.message);
}

static attn_status refuse(const srv_decision *decision, const char *backend, attn_error *error)
{
    for (int i = 0; i < decision->count; i++)
        if (backend && strcmp(decision->candidates[i].mixer->name, backend) == 0)
            return attn_error_set(error, ATTN_UNSUPPORTED, "backend", "%s",
                                  decision->candidates[i].why_not);
    return attn_error_set(error, ATTN_UNSUPPORTED, "backend", "no backend can serve this request");
}

attn_status srv_decide(srv_decision *decision, const srv_server *server, const srv_call *call,
                       const srv_inputs *inputs, const srv_options *options, attn_error *error)
{
    attn_facts facts = {
        .n = call->longest,
        .long_range = srv_options_bool(options, SRV_FIELD_LONG_RANGE, false),
        .locality = srv_options_bool(options, SRV_FIELD_LOCALITY, false),
        .short_below = server->config.short_below,
        .long_above = server->config.long_above,
    };
    attn_program *programs[SRV_MAX_CANDIDATES] = {NULL};
    *decision = (srv_decision){.count = 0};
    attn_status status = read_backend(inputs, options, &facts.backend, error);
    for (const attn_mixer *const *m = attn_mixers; *m && status == ATTN_OK; m++)
        status =
            consider(decision, &programs[decision->count], *m, server, call, facts.backend, error);
    if (status == ATTN_OK) {
        decision->choice = attn_route_guidance(&facts, decision->candidates, decision->count);
        if (decision->choice.index < 0)
            status = refuse(decision, facts.backend, error);
    }
    if (status == ATTN_OK) {
        decision->program = programs[decision->choice.index];
        programs[decision->choice.index] = NULL;
    }
    for (int i = 0; i < SRV_MAX_CANDIDATES; i++)
        attn_program_close(programs[i]);
    return status;
}

void srv_decision_free(srv_decision *decision)
{
    attn_program_close(decision->program);
    *decision = (srv_decision){.count = 0};
}

const attn_candidate *srv_decision_chosen(const srv_decision *decision)
{
    return &decision->candidates[decision->choice.index];
}

static void print_candidate(const attn_candidate *c, srv_text *text)
{
    srv_text_string(text, "{\"backend\": ");
    srv_text_json(text, c->mixer->name);
    srv_text_format(text, ", \"eligible\": %s, \"chosen\": %s", c->eligible ? "true" : "false",
                    c->chosen ? "true" : "false");
    if (c->why_not[0]) {
        srv_text_string(text, ", \"why_not\": ");
        srv_text_json(text, c->why_not);
    }
    if (c->eligible) {
        srv_text_string(text, ", \"predicted_ms\": ");
        srv_text_ms(text, c->predicted_ms);
        srv_text_format(text, ", \"predicted_bytes\": %zu", c->predicted_bytes);
    }
    srv_text_format(text, ", \"trained\": %s}", c->trained ? "true" : "false");
}

void srv_decision_print(const srv_decision *decision, srv_text *text)
{
    srv_text_string(text, "{\"policy\": \"guidance\", \"rule\": ");
    srv_text_json(text, decision->choice.rule);
    srv_text_string(text, ", \"reason\": ");
    srv_text_json(text, decision->choice.reason);
    srv_text_string(text, ", \"considered\": [");
    for (int i = 0; i < decision->count; i++) {
        if (i > 0)
            srv_text_string(text, ", ");
        print_candidate(&decision->candidates[i], text);
    }
    for (const char *const *name = model_backends; *name; name++)
        srv_text_format(text,
                        ", {\"backend\": \"%s\", \"eligible\": false, \"chosen\": false, "
                        "\"why_not\": \"%s\", \"trained\": false}",
                        *name, why_missing);
    srv_text_string(text, "]}");
}
