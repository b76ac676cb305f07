/* The name a client may give, the router's choice, and the answer's account of it. */
#include "server/attend/decision.h"

#include <stdio.h>
#include <string.h>

static attn_status check_name(const char *name, attn_error *error)
{
    if (srv_backend_exists(name))
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
    *backend = name;
    return ATTN_OK;
}

static attn_status refuse(const srv_candidates *candidates, const char *backend, attn_error *error)
{
    for (int i = 0; i < candidates->count; i++)
        if (backend && strcmp(candidates->all[i].name, backend) == 0)
            return attn_error_set(error, ATTN_UNSUPPORTED, "backend", "%s",
                                  candidates->all[i].why_not);
    return attn_error_set(error, ATTN_UNSUPPORTED, "backend",
                          "no backend can serve this request; %s cannot: %s",
                          candidates->all[0].name, candidates->all[0].why_not);
}

attn_status srv_decide(srv_decision *decision, const srv_server *server, const srv_call *call,
                       const srv_inputs *inputs, const srv_options *options, attn_error *error)
{
    srv_candidates *candidates = &decision->candidates;
    attn_facts facts = {
        .n = call->longest,
        .long_range = srv_options_bool(options, SRV_FIELD_LONG_RANGE, false),
        .locality = srv_options_bool(options, SRV_FIELD_LOCALITY, false),
        .short_below = server->config.short_below,
        .long_above = server->config.long_above,
    };
    *decision = (srv_decision){.choice = {.index = -1}};
    attn_status status = read_backend(inputs, options, &facts.backend, error);
    if (status == ATTN_OK)
        status = srv_candidates_fill(candidates, server, call, options, facts.backend, error);
    if (status != ATTN_OK)
        return status;
    decision->choice = attn_route_guidance(&facts, candidates->all, candidates->count);
    return decision->choice.index < 0 ? refuse(candidates, facts.backend, error) : ATTN_OK;
}

void srv_decision_free(srv_decision *decision)
{
    srv_candidates_free(&decision->candidates);
}

const attn_candidate *srv_decision_chosen(const srv_decision *decision)
{
    return &decision->candidates.all[decision->choice.index];
}

const attn_program *srv_decision_program(const srv_decision *decision)
{
    return decision->candidates.programs[decision->choice.index];
}

static void print_candidate(const attn_candidate *c, srv_text *text)
{
    srv_text_string(text, "{\"backend\": ");
    srv_text_json(text, c->name);
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
    for (int i = 0; i < decision->candidates.count; i++) {
        if (i > 0)
            srv_text_string(text, ", ");
        print_candidate(&decision->candidates.all[i], text);
    }
    srv_text_string(text, "]}");
}
