/* Planning what a call could go to. A raw call has the mixers; a model has what its configuration
 * lists, in that order. */
#include "server/attend/candidates.h"

#include "attn/backend.h"
#include "server/attend/params.h"

#include <stdio.h>
#include <string.h>

/* A backend on its way to be a candidate. */
typedef struct proposal {
    const char *name;
    bool exact, trained, recurrent;
    bool measurable;
    bool is_named;
    bool covers; /* a linformer's projection reaches the sequence's end; any other backend */
} proposal;

static attn_candidate *append(srv_candidates *candidates, const proposal *p)
{
    attn_candidate *candidate = &candidates->all[candidates->count++];
    *candidate = (attn_candidate){.name = p->name,
                                  .trained = p->trained,
                                  .exact = p->exact,
                                  .recurrent = p->recurrent,
                                  .measurable = p->measurable};
    return candidate;
}

/* Candidate `index` is planned: what it takes. */
static void predict(srv_candidates *candidates, int index, const srv_server *server,
                    const srv_call *call)
{
    attn_candidate *candidate = &candidates->all[index];
    const attn_program *program = candidates->programs[index];
    srv_forecast *forecast = &candidates->forecasts[index];
    *forecast = srv_forecast_make(server, &call->transfer, program, candidate->name, call->longest);
    candidate->predicted_ms = forecast->wall_ns * 1e-6;
    candidate->predicted_bytes = attn_program_bytes(program, server->workers);
}

/* Note how planning the last candidate went. What a backend that nobody named makes of the
 * parameters is no fault of the request, unless it is exact, which every request could go to. */
static attn_status settle(srv_candidates *candidates, const srv_server *server,
                          const srv_call *call, const proposal *p, attn_status status,
                          const attn_error *refusal, attn_error *error)
{
    int last = candidates->count - 1;
    attn_candidate *candidate = &candidates->all[last];
    if (status == ATTN_OK) {
        candidate->eligible = true;
        predict(candidates, last, server, call);
        return ATTN_OK;
    }
    snprintf(candidate->why_not, sizeof candidate->why_not, "%.159s", refusal->message);
    bool blameless = !p->is_named && !p->exact && status != ATTN_NO_MEMORY;
    if (status == ATTN_UNSUPPORTED || blameless)
        return ATTN_OK;
    return attn_error_set(error, status, refusal->param, "%s", refusal->message);
}

/* Low rank stands in for exact attention only where a projection covers the sequence; otherwise it
 * has to be asked for by name. */
static attn_status check_cover(const proposal *p, const srv_call *call, attn_error *error)
{
    if (p->covers || p->is_named)
        return ATTN_OK;
    return attn_error_set(error, ATTN_UNSUPPORTED, NULL, "no projection %s covers %lld keys",
                          call->model ? "of the model" : "e in the request",
                          (long long)call->longest);
}

/* Exact attention is held against itself only when somebody asks for it. What the metrics want is
 * added to the chosen backend alone, behind the choice. */
static const attn_sampling *sampling_of(const proposal *p, const srv_call *call)
{
    static const attn_sampling none = {0};
    bool unasked = call->sampled_for_metrics || (p->exact && !call->wants_estimate);
    return unasked ? &none : &call->sampling;
}

static bool names(const char *named, const char *name)
{
    return named && strcmp(named, name) == 0;
}

static attn_status fill_raw(srv_candidates *candidates, const srv_server *server,
                            const srv_call *call, const char *named, attn_error *error)
{
    const attn_mix_params *params = &call->params;
    attn_status status = ATTN_OK;
    for (const attn_mixer *const *m = attn_mixers; *m && status == ATTN_OK; m++) {
        bool exact = ((*m)->traits & ATTN_EXACT) != 0;
        const proposal p = {
            .name = (*m)->name,
            .exact = exact,
            .trained = exact,
            .measurable = !exact,
            .is_named = names(named, (*m)->name),
            .covers =
                strcmp((*m)->name, "linformer") != 0 ||
                (params->projection == ATTN_GIVEN && params->projection_length >= call->longest),
        };
        attn_program **program = &candidates->programs[candidates->count];
        append(candidates, &p);
        attn_error refusal = {0};
        attn_status planned = check_cover(&p, call, &refusal);
        if (planned == ATTN_OK)
            planned = attn_program_attend(program, &server->machine, *m, params, &call->shape,
                                          sampling_of(&p, call), &refusal);
        status = settle(candidates, server, call, &p, planned, &refusal, error);
    }
    return status;
}

/* The layers of a stack are what its configuration made them. */
static attn_status refuse_params(const srv_options *options, attn_error *error)
{
    for (int f = SRV_FIELD_WINDOW; f <= SRV_FIELD_SEED; f++)
        if (srv_options_given(options, (srv_field)f))
            return attn_error_set(error, ATTN_INVALID, "params",
                                  "params do not go with a model of several layers, each of which "
                                  "has its own; leave them out");
    return ATTN_OK;
}

/* What of a request only some backends of a model can follow. */
static attn_status check_backend(const srv_call *call, const attn_model_backend *backend,
                                 const srv_options *options, attn_error *error)
{
    long long k = srv_options_int(options, SRV_FIELD_K, backend->mix.k);
    if ((backend->traits & ATTN_RECURRENT) && !call->forward_only)
        return attn_error_set(error, ATTN_UNSUPPORTED, "causal",
                              "%s reads from left to right, and the request says that causal is "
                              "false; leave causal out or use another backend",
                              backend->name);
    bool own = backend->mix.projection == ATTN_GIVEN;
    if (own && srv_options_given(options, SRV_FIELD_PROJECTION))
        return attn_error_set(error, ATTN_INVALID, "params.projection",
                              "params.projection is given, but the model has matrices of its own; "
                              "leave it out");
    if (own && k != backend->mix.k)
        return attn_error_set(error, ATTN_INVALID, "params.k",
                              "params.k is %lld, but the model projects to %lld; leave it out", k,
                              (long long)backend->mix.k);
    return ATTN_OK;
}

static attn_status plan_backend(attn_program **program, const srv_server *server,
                                const srv_call *call, int index, const attn_sampling *sampling,
                                const srv_options *options, attn_error *error)
{
    const attn_model_backend *backend = &attn_model_info_of(call->model)->backends[index];
    attn_model_call run = {.backend = index,
                           .adapter = call->adapter,
                           .batch = call->shape.batch,
                           .n = call->shape.n,
                           .mix = backend->mix,
                           .scale_given = srv_options_given(options, SRV_FIELD_SCALE),
                           .sampling = *sampling};
    attn_status status = check_backend(call, backend, options, error);
    if (status == ATTN_OK && strcmp(attn_model_info_of(call->model)->type, "layer") != 0)
        status = refuse_params(options, error);
    if (status == ATTN_OK)
        status = srv_params_override(&run.mix, options, error);
    run.mix.mask = call->params.mask;
    if (status == ATTN_OK)
        status = attn_model_plan(program, call->model, &server->machine, &run, error);
    return status;
}

static void append_missing(srv_candidates *candidates, const srv_call *call)
{
    for (const char *const *name = attn_backend_names; *name; name++) {
        bool found = false;
        for (int i = 0; i < candidates->count; i++)
            found |= strcmp(candidates->all[i].name, *name) == 0;
        if (found)
            continue;
        attn_candidate *candidate = append(candidates, &(proposal){.name = *name});
        if (call->model)
            snprintf(candidate->why_not, sizeof candidate->why_not,
                     "model %.64s has no backend %s; GET /v1/models tells what it has",
                     attn_model_info_of(call->model)->name, *name);
        else
            snprintf(candidate->why_not, sizeof candidate->why_not,
                     "%s needs the weights of a loaded model, which a raw call has not; use exact "
                     "or auto",
                     *name);
    }
}

static attn_status fill_model(srv_candidates *candidates, const srv_server *server,
                              const srv_call *call, const srv_options *options, const char *named,
                              attn_error *error)
{
    const attn_model_info *info = attn_model_info_of(call->model);
    bool layer = strcmp(info->type, "layer") == 0;
    attn_status status = ATTN_OK;
    for (int i = 0; i < info->backend_count && status == ATTN_OK; i++) {
        const attn_model_backend *b = &info->backends[i];
        const proposal p = {
            .name = b->name,
            .exact = layer && (b->traits & ATTN_EXACT),
            .trained = b->trained,
            .recurrent = (b->traits & ATTN_RECURRENT) != 0,
            .measurable = layer && !(b->traits & (ATTN_RECURRENT | ATTN_EXACT)),
            .is_named = names(named, b->name),
            .covers =
                strcmp(b->name, "linformer") != 0 ||
                (b->mix.projection == ATTN_GIVEN && b->mix.projection_length >= call->longest),
        };
        attn_program **program = &candidates->programs[candidates->count];
        append(candidates, &p);
        attn_error refusal = {0};
        attn_status planned = check_cover(&p, call, &refusal);
        if (planned == ATTN_OK)
            planned =
                plan_backend(program, server, call, i, sampling_of(&p, call), options, &refusal);
        status = settle(candidates, server, call, &p, planned, &refusal, error);
    }
    return status;
}

attn_status srv_candidates_fill(srv_candidates *candidates, const srv_server *server,
                                const srv_call *call, const srv_options *options, const char *named,
                                attn_error *error)
{
    *candidates = (srv_candidates){.count = 0};
    attn_status status = call->model ? fill_model(candidates, server, call, options, named, error)
                                     : fill_raw(candidates, server, call, named, error);
    if (status == ATTN_OK)
        append_missing(candidates, call);
    return status;
}

/* Candidates that can be eligible stand in the order of the mixers, or of the model's backends. */
void srv_candidates_sample(srv_candidates *candidates, int index, const srv_server *server,
                           const srv_call *call, const srv_options *options)
{
    attn_program *sampled = NULL;
    attn_status status =
        call->model ? plan_backend(&sampled, server, call, index, &call->sampling, options, NULL)
                    : attn_program_attend(&sampled, &server->machine, attn_mixers[index],
                                          &call->params, &call->shape, &call->sampling, NULL);
    if (status != ATTN_OK)
        return;
    attn_program_close(candidates->programs[index]);
    candidates->programs[index] = sampled;
    predict(candidates, index, server, call);
}

void srv_candidates_free(srv_candidates *candidates)
{
    for (int i = 0; i < ATTN_CANDIDATES_MAX; i++)
        attn_program_close(candidates->programs[i]);
    *candidates = (srv_candidates){.count = 0};
}
