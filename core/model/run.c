/* A model's program for one call: the steps of its layers in a row. Hidden states lie in OUT from
 * the first layer on; only that one reads INPUT. */
#include "model/clear.h"
#include "model/loaded.h"

static const char reads_forward[] =
    "mamba reads from left to right, although neither the model nor the request says causal";

/* A call on its way to a program. */
typedef struct planning {
    const attn_model *model;
    const attn_machine *machine;
    const attn_model_call *call;
    attn_program *program;
    attn_site site; /* of the next part of a layer */
} planning;

static attn_region hidden_in(const planning *p, attn_array array)
{
    return attn_region_rows(array, 0, p->call->n, p->model->hidden);
}

static const attn_row_norm *unless_none(const attn_row_norm *norm)
{
    return norm->kind == ATTN_NORMALIZATION_NONE ? NULL : norm;
}

/* From here on hidden states are those that the part just added wrote. */
static void go_on(planning *p)
{
    p->site.x = p->site.onto = p->site.y;
}

static bool is_causal(const planning *p)
{
    return p->model->config.causal == ATTN_CAUSAL_ALWAYS ||
           (p->model->config.causal == ATTN_CAUSAL_EITHER && p->call->mix.mask.causal);
}

static attn_status add_attention(planning *p, const attn_layer *layer, attn_backend backend,
                                 const attn_mix_params *given, bool causal,
                                 const attn_sampling *sampling, attn_error *error)
{
    attn_mix_params mix = *given;
    mix.mask.causal = causal;
    mix.scale =
        p->call->scale_given ? p->call->mix.scale : attn_default_scale(layer->attention.head_dim);
    return attn_attention_add(p->program, p->machine, &layer->attention,
                              attn_mixer_find(attn_backend_names[backend]), &mix, &p->site,
                              sampling, error);
}

static attn_status add_mamba(planning *p, const attn_layer *layer, attn_error *error)
{
    if (!is_causal(p))
        attn_program_warn(p->program, reads_forward);
    return attn_mamba_add(p->program, p->machine, &layer->mamba, &p->site, error);
}

/* Mamba, then a causal window, each with its residual. */
static attn_status add_hybrid(planning *p, const attn_layer *layer, attn_error *error)
{
    p->site.adds = true;
    attn_status status = add_mamba(p, layer, error);
    go_on(p);
    if (status == ATTN_OK)
        status = add_attention(p, layer, ATTN_BACKEND_WINDOW, &p->call->mix, true, NULL, error);
    return status;
}

static attn_status add_single(planning *p, attn_error *error)
{
    const attn_layer *layer = p->model->layers;
    attn_backend backend = ATTN_BACKEND_EXACT;
    attn_backend_find(p->model->backends[p->call->backend].name, &backend);
    if (backend == ATTN_BACKEND_MAMBA)
        return add_mamba(p, layer, error);
    if (backend == ATTN_BACKEND_HYBRID)
        return add_hybrid(p, layer, error);
    return add_attention(p, layer, backend, &p->call->mix, is_causal(p), &p->call->sampling, error);
}

static attn_status add_layer(planning *p, const attn_layer *layer, attn_error *error)
{
    p->site.adds = layer->residual;
    p->site.norm = unless_none(&layer->norm);
    attn_status status = layer->recurs ? add_mamba(p, layer, error)
                                       : add_attention(p, layer, layer->backend, &layer->mix,
                                                       is_causal(p), NULL, error);
    go_on(p);
    if (status != ATTN_OK || !layer->feeds)
        return status;
    p->site.norm = unless_none(&layer->feed_norm);
    return attn_feed_forward_add(p->program, p->machine, &layer->feed_forward, &p->site, error);
}

static attn_status add_stack(planning *p, attn_error *error)
{
    const attn_model *model = p->model;
    attn_status status = ATTN_OK;
    for (int i = 0; i < model->layer_count && status == ATTN_OK; i++)
        status = add_layer(p, &model->layers[i], error);
    if (status == ATTN_OK && unless_none(&model->final_norm))
        status = attn_row_norm_add(p->program, &p->machine->rates, &model->final_norm, p->site.y,
                                   p->site.y, (attn_extent){p->call->batch, p->call->n},
                                   model->hidden, error);
    return status;
}

static attn_status check_sizes(const attn_model_call *call, attn_error *error)
{
    const int64_t *lengths = call->mix.mask.lengths;
    if (call->batch < 1 || call->batch > INT32_MAX || call->n < 1 || call->n > INT32_MAX)
        return attn_error_set(error, ATTN_INVALID, "input",
                              "batch is %lld and n is %lld, expected 1 to %d of each",
                              (long long)call->batch, (long long)call->n, INT32_MAX);
    for (int64_t b = 0; lengths && b < call->batch; b++)
        if (lengths[b] < 0 || lengths[b] > call->n)
            return attn_error_set(
                error, ATTN_INVALID, "lengths",
                "lengths[%lld] is %lld, expected 0 to the %lld positions there are", (long long)b,
                (long long)lengths[b], (long long)call->n);
    return ATTN_OK;
}

static attn_status add_steps(planning *p, attn_error *error)
{
    const attn_model *model = p->model;
    const int64_t *lengths = p->call->mix.mask.lengths;
    attn_status status =
        model->config.type == ATTN_MODEL_LAYER ? add_single(p, error) : add_stack(p, error);
    if (status == ATTN_OK && lengths)
        status = attn_clear_add(p->program, &p->machine->rates, lengths, p->site.y, p->call->batch,
                                p->call->n, model->hidden, error);
    return status;
}

attn_status attn_model_plan(attn_program **program, const attn_model *model,
                            const attn_machine *machine, const attn_model_call *call,
                            attn_error *error)
{
    planning p = {.model = model, .machine = machine, .call = call};
    *program = NULL;
    attn_status status = check_sizes(call, error);
    if (status != ATTN_OK)
        return status;
    p.site = (attn_site){.batch = call->batch,
                         .n = call->n,
                         .hidden = model->hidden,
                         .mask = call->mix.mask,
                         .x = hidden_in(&p, ATTN_ARRAY_INPUT),
                         .y = hidden_in(&p, ATTN_ARRAY_OUT),
                         .onto = hidden_in(&p, ATTN_ARRAY_INPUT),
                         .adapter = call->adapter < 0 ? NULL : model->adapters[call->adapter]};
    p.program = attn_program_open();
    if (!p.program)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a program");
    status = add_steps(&p, error);
    if (status == ATTN_OK)
        *program = p.program;
    else
        attn_program_close(p.program);
    return status;
}
