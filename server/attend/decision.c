/* The name a client may give, the router's choice, and what follows it. */
#include "server/attend/decision.h"

#include "attn/backend.h"

#include <stdio.h>
#include <string.h>

static attn_status check_name(const char *name, attn_error *error)
{
    attn_backend backend;
    if (attn_backend_find(name, &backend))
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

static const attn_candidate *fastest(const srv_candidates *candidates)
{
    const attn_candidate *best = NULL;
    for (int i = 0; i < candidates->count; i++) {
        const attn_candidate *c = &candidates->all[i];
        if (c->eligible && (!best || c->predicted_ms < best->predicted_ms))
            best = c;
    }
    return best;
}

static attn_status refuse(const srv_decision *decision, const attn_facts *facts, attn_error *error)
{
    const srv_candidates *candidates = &decision->candidates;
    if (decision->choice.too_slow)
        return attn_error_set(error, ATTN_INFEASIBLE, "hints.deadline_ms",
                              "no backend of the rule is predicted to answer within deadline_ms "
                              "%.6g; %s, the fastest there is, takes about %.3g ms: name it or "
                              "allow more time",
                              facts->deadline_ms, fastest(candidates)->name,
                              fastest(candidates)->predicted_ms);
    if (!facts->backend && strcmp(decision->choice.rule, "error_bound") == 0)
        return attn_error_set(error, ATTN_INFEASIBLE, "hints.max_relative_error",
                              "in recent requests every backend of the model exceeded "
                              "max_relative_error %.6g, and it has no exact attention; allow more",
                              facts->max_relative_error);
    for (int i = 0; i < candidates->count; i++)
        if (facts->backend && strcmp(candidates->all[i].name, facts->backend) == 0)
            return attn_error_set(error, ATTN_UNSUPPORTED, "backend", "%s",
                                  candidates->all[i].why_not);
    return attn_error_set(error, ATTN_UNSUPPORTED, "backend",
                          "no backend can serve this request; %s cannot: %s",
                          candidates->all[0].name, candidates->all[0].why_not);
}

/* What earlier requests to the model tell about its backends. */
static void recall(srv_candidates *candidates, srv_server *server, const srv_call *call,
                   bool plan_only)
{
    for (int i = 0; call->model && call->max_relative_error > 0 && i < candidates->count; i++) {
        attn_candidate *c = &candidates->all[i];
        if (c->eligible && c->measurable)
            c->hopeless = srv_experience_is_hopeless(&server->experience,
                                                     attn_model_info_of(call->model)->name, c->name,
                                                     call->max_relative_error, plan_only);
    }
}

attn_status srv_decide(srv_decision *decision, srv_server *server, const srv_call *call,
                       const srv_inputs *inputs, const srv_options *options, bool plan_only,
                       attn_error *error)
{
    const srv_config *config = &server->config;
    attn_facts facts = {
        .n = call->longest,
        .long_range = srv_options_bool(options, SRV_FIELD_LONG_RANGE, false),
        .locality = srv_options_bool(options, SRV_FIELD_LOCALITY, false),
        .deadline_ms = srv_options_real(options, SRV_FIELD_DEADLINE_MS, 0),
        .max_relative_error = call->max_relative_error,
        .short_below = config->short_below,
        .long_above = config->long_above,
        .require_trained = config->require_trained,
        .vector_scan = server->machine.isa != ATTN_ISA_SCALAR,
    };
    *decision = (srv_decision){.choice = {.index = -1}};
    attn_status status = read_backend(inputs, options, &facts.backend, error);
    if (status == ATTN_OK)
        status =
            srv_candidates_fill(&decision->candidates, server, call, options, facts.backend, error);
    if (status != ATTN_OK)
        return status;
    /* Where no configuration names one, as in tests, it is the first. */
    attn_policy_find(config->policy, &facts.policy);
    decision->policy = facts.policy;
    if (!facts.backend)
        recall(&decision->candidates, server, call, plan_only);
    decision->choice = attn_route(&facts, decision->candidates.all, decision->candidates.count);
    decision->first = decision->choice.index;
    if (decision->first < 0)
        return refuse(decision, &facts, error);
    if (call->sampled_for_metrics && !plan_only && srv_decision_chosen(decision)->measurable)
        srv_candidates_sample(&decision->candidates, decision->first, server, call, options);
    return ATTN_OK;
}

bool srv_decision_move_on(srv_decision *decision, double relative_l2, double bound)
{
    attn_choice *choice = &decision->choice;
    attn_candidate *left = &decision->candidates.all[choice->index];
    decision->tried[decision->tried_count++] = (srv_tried){left->name, relative_l2};
    if (decision->moves == choice->next_count)
        return false;
    left->chosen = false;
    snprintf(left->why_not, sizeof left->why_not,
             "tried: %.3g from exact attention, max_relative_error is %.3g", relative_l2, bound);
    choice->index = choice->next[decision->moves++];
    choice->rule = "error_bound";
    attn_candidate *next = &decision->candidates.all[choice->index];
    next->chosen = true;
    next->why_not[0] = '\0';
    snprintf(choice->reason, sizeof choice->reason,
             "%s was %.3g from exact attention, max_relative_error is %.3g; %s follows", left->name,
             relative_l2, bound, next->name);
    return true;
}

/* Whichever may come to run: the first, and those that follow while the answer is too far off. */
static int choice_at(const srv_decision *decision, int i)
{
    return i == 0 ? decision->first : decision->choice.next[i - 1];
}

size_t srv_decision_bytes(const srv_decision *decision)
{
    size_t most = 0;
    for (int i = 0; i <= decision->choice.next_count; i++) {
        size_t bytes = decision->candidates.all[choice_at(decision, i)].predicted_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t srv_decision_shared_bytes(const srv_decision *decision)
{
    size_t most = 0;
    for (int i = 0; i <= decision->choice.next_count; i++) {
        const attn_program *program = decision->candidates.programs[choice_at(decision, i)];
        size_t bytes = attn_program_shared_bytes(program);
        most = bytes > most ? bytes : most;
    }
    return most;
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

const srv_forecast *srv_decision_forecast(const srv_decision *decision)
{
    return &decision->candidates.forecasts[decision->choice.index];
}
