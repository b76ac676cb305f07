/* A call of a loaded model: hidden states in, and what a request may say besides. */
#include "server/attend/call.h"
#include "server/attend/call_masks.h"

static attn_status refuse_tensors(const srv_inputs *in, attn_error *error)
{
    const struct {
        const char *name;
        const srv_tensor *tensor;
    } raw[] = {{"q", in->q}, {"k", in->k}, {"v", in->v},
               {"e", in->e}, {"f", in->f}, {"omega", in->omega}};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        if (raw[i].tensor)
            return attn_error_set(error, ATTN_INVALID, raw[i].name,
                                  "%s does not go with a model, which makes its own from input; "
                                  "leave it or the model out",
                                  raw[i].name);
    return ATTN_OK;
}

static attn_status read_shape(srv_call *call, const srv_tensor *input, int64_t hidden,
                              attn_error *error)
{
    char found[SRV_SHAPE_MAX];
    if (!input)
        return attn_error_set(error, ATTN_INVALID, "input",
                              "input is missing; a model reads [n,%lld] or [batch,n,%lld]",
                              (long long)hidden, (long long)hidden);
    bool batched = input->rank == 3;
    if ((!batched && input->rank != 2) || input->dim[input->rank - 1] != hidden) {
        srv_tensor_shape(found, input->dim, input->rank);
        return attn_error_set(error, ATTN_INVALID, "input",
                              "input is %s, expected [n,%lld] or [batch,n,%lld]", found,
                              (long long)hidden, (long long)hidden);
    }
    call->rank = input->rank;
    call->shape.batch = batched ? input->dim[0] : 1;
    call->shape.n = call->shape.m = input->dim[input->rank - 2];
    return ATTN_OK;
}

/* A request may repeat what the model is, not change it. */
static attn_status read_causal(srv_call *call, const srv_options *options, attn_error *error)
{
    const attn_model_info *info = attn_model_info_of(call->model);
    bool fallback = info->causal == ATTN_CAUSAL_ALWAYS;
    bool causal = srv_options_bool(options, SRV_FIELD_CAUSAL, fallback);
    call->params.mask.causal = causal;
    call->forward_only = causal || !srv_options_given(options, SRV_FIELD_CAUSAL);
    if (info->causal == ATTN_CAUSAL_EITHER || causal == fallback)
        return ATTN_OK;
    return attn_error_set(error, ATTN_UNSUPPORTED, "causal",
                          "causal is %s, but model %s is%s causal; leave it out",
                          causal ? "true" : "false", info->name, fallback ? "" : " not");
}

static attn_status read_adapter(srv_call *call, const srv_options *options, attn_error *error)
{
    const char *name = srv_options_string(options, SRV_FIELD_ADAPTER, NULL);
    if (!name)
        return ATTN_OK;
    call->adapter = attn_model_find_adapter(call->model, name);
    if (call->adapter >= 0)
        return ATTN_OK;
    const attn_model_info *info = attn_model_info_of(call->model);
    return attn_error_set(error, ATTN_NOT_FOUND, "adapter",
                          "model %s has no adapter \"%.64s\"; GET /v1/models/%s lists them",
                          info->name, name, info->name);
}

static attn_status open_call(srv_call *call, const attn_model *model, const srv_options *options,
                             attn_error *error)
{
    int64_t hidden = attn_model_info_of(model)->hidden;
    *call = (srv_call){.model = model,
                       .adapter = -1,
                       .shape = {.batch = 1, .heads = 1, .kv_heads = 1, .d = hidden, .dv = hidden}};
    attn_status status = read_causal(call, options, error);
    if (status == ATTN_OK)
        status = read_adapter(call, options, error);
    return status;
}

attn_status srv_call_read_model(srv_call *call, const attn_model *model, const srv_inputs *inputs,
                                const srv_options *options, attn_error *error)
{
    attn_status status = open_call(call, model, options, error);
    if (status == ATTN_OK)
        status = srv_call_refuse_shape(options, error);
    if (status == ATTN_OK)
        status = refuse_tensors(inputs, error);
    if (status == ATTN_OK)
        status = read_shape(call, inputs->input, call->shape.d, error);
    if (status == ATTN_OK)
        status = srv_call_read_masks(call, inputs->key_mask, options, error);
    return status;
}

/* Sizes that the model has already. */
static attn_status refuse_sizes(const srv_options *options, attn_error *error)
{
    static const struct {
        srv_field field;
        const char *path;
    } sizes[] = {{SRV_FIELD_SHAPE_HEADS, "shape.heads"},
                 {SRV_FIELD_SHAPE_KV_HEADS, "shape.kv_heads"},
                 {SRV_FIELD_SHAPE_D, "shape.d"},
                 {SRV_FIELD_SHAPE_DV, "shape.dv"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (srv_options_given(options, sizes[i].field))
            return attn_error_set(error, ATTN_INVALID, sizes[i].path,
                                  "%s is the model's; of its shape only n and batch are open",
                                  sizes[i].path);
    return ATTN_OK;
}

attn_status srv_call_from_model_shape(srv_call *call, const attn_model *model,
                                      const srv_options *options, attn_error *error)
{
    attn_status status = open_call(call, model, options, error);
    if (status == ATTN_OK)
        status = refuse_sizes(options, error);
    if (status == ATTN_OK && !srv_options_given(options, SRV_FIELD_SHAPE_N))
        status = attn_error_set(error, ATTN_INVALID, "shape.n",
                                "shape.n is missing; a plan needs input, or a shape with n");
    if (status != ATTN_OK)
        return status;
    call->rank = 3;
    call->shape.batch = srv_options_int(options, SRV_FIELD_SHAPE_BATCH, 1);
    call->shape.n = srv_options_int(options, SRV_FIELD_SHAPE_N, 0);
    call->shape.m = srv_options_int(options, SRV_FIELD_SHAPE_M, call->shape.n);
    if (call->shape.m != call->shape.n)
        return attn_error_set(error, ATTN_INVALID, "shape.m",
                              "shape.m is %lld and shape.n %lld; a model attends to its own input",
                              (long long)call->shape.m, (long long)call->shape.n);
    return srv_call_read_masks(call, NULL, options, error);
}
