/* Checking that q, k, v and the masks belong together. */
#include "server/attend/call.h"

#include "server/attend/call_masks.h"
#include "server/attend/params.h"

#include <stdlib.h>

/* Sizes of a tensor read from its last dimension backwards; those it does not have are 1. */
typedef struct sizes {
    int64_t batch, heads, rows, columns;
} sizes;

static sizes sizes_of(const srv_tensor *t)
{
    int64_t d[4] = {1, 1, 1, 1};
    for (int i = 0; i < t->rank; i++)
        d[4 - t->rank + i] = t->dim[i];
    return (sizes){d[0], d[1], d[2], d[3]};
}

static attn_status check_present(const srv_inputs *in, attn_error *error)
{
    const struct {
        const char *name;
        const srv_tensor *tensor;
    } needed[] = {{"q", in->q}, {"k", in->k}, {"v", in->v}};
    if (in->input)
        return attn_error_set(error, ATTN_INVALID, "input",
                              "input goes with a model, and the request names none; send q, k and "
                              "v, or a model");
    for (size_t i = 0; i < 3; i++) {
        const char *name = needed[i].name;
        if (!needed[i].tensor)
            return attn_error_set(error, ATTN_INVALID, name,
                                  "%s is missing; an attention call needs q, k and v", name);
        int rank = needed[i].tensor->rank;
        if (rank < 2)
            return attn_error_set(error, ATTN_INVALID, name,
                                  "%s has rank %d, expected [n,d], [heads,n,d] or "
                                  "[batch,heads,n,d]",
                                  name, rank);
        if (rank != in->q->rank)
            return attn_error_set(error, ATTN_INVALID, name,
                                  "%s has rank %d but q has rank %d; they must be the same", name,
                                  rank, in->q->rank);
    }
    return ATTN_OK;
}

/* `name` has `found` where `expected` is needed. */
static attn_status check_same(const char *name, const char *what, int64_t found, const char *other,
                              int64_t expected, attn_error *error)
{
    if (found == expected)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, name, "%s has %lld %s%s but %s has %lld", name,
                          (long long)found, what, found == 1 ? "" : "s", other,
                          (long long)expected);
}

static attn_status read_shape(srv_call *call, const srv_inputs *in, attn_error *error)
{
    attn_status status = check_present(in, error);
    if (status != ATTN_OK)
        return status;
    sizes q = sizes_of(in->q), k = sizes_of(in->k), v = sizes_of(in->v);
    if ((status = check_same("k", "batch row", k.batch, "q", q.batch, error)) ||
        (status = check_same("v", "batch row", v.batch, "q", q.batch, error)) ||
        (status = check_same("v", "head", v.heads, "k", k.heads, error)) ||
        (status = check_same("v", "row", v.rows, "k", k.rows, error)) ||
        (status = check_same("k", "column", k.columns, "q", q.columns, error)))
        return status;
    call->rank = in->q->rank;
    call->shape = (attn_shape){.batch = q.batch,
                               .heads = q.heads,
                               .kv_heads = k.heads,
                               .n = q.rows,
                               .m = k.rows,
                               .d = q.columns,
                               .dv = v.columns};
    return ATTN_OK;
}

attn_status srv_call_refuse_shape(const srv_options *options, attn_error *error)
{
    for (int f = SRV_FIELD_SHAPE_N; f <= SRV_FIELD_SHAPE_BATCH; f++)
        if (srv_options_given(options, (srv_field)f))
            return attn_error_set(error, ATTN_INVALID, "shape",
                                  "shape and tensors are both given; send one of them");
    return ATTN_OK;
}

attn_status srv_call_read(srv_call *call, const srv_inputs *inputs, const srv_options *options,
                          attn_error *error)
{
    *call = (srv_call){.adapter = -1};
    attn_status status = srv_call_refuse_shape(options, error);
    if (status == ATTN_OK)
        status = read_shape(call, inputs, error);
    if (status != ATTN_OK)
        return status;
    status = srv_params_read(&call->params, &call->shape, inputs, options, error);
    if (status == ATTN_OK)
        status = srv_call_read_masks(call, inputs->key_mask, options, error);
    return status;
}

attn_status srv_call_from_shape(srv_call *call, const srv_inputs *inputs,
                                const srv_options *options, attn_error *error)
{
    *call = (srv_call){.rank = 4, .adapter = -1};
    if (!srv_options_given(options, SRV_FIELD_SHAPE_N))
        return attn_error_set(error, ATTN_INVALID, "shape.n",
                              "shape.n is missing; a plan needs q, k and v, or a shape with n");
    attn_shape *s = &call->shape;
    s->n = srv_options_int(options, SRV_FIELD_SHAPE_N, 0);
    s->m = srv_options_int(options, SRV_FIELD_SHAPE_M, s->n);
    s->heads = srv_options_int(options, SRV_FIELD_SHAPE_HEADS, 1);
    s->kv_heads = srv_options_int(options, SRV_FIELD_SHAPE_KV_HEADS, s->heads);
    s->d = srv_options_int(options, SRV_FIELD_SHAPE_D, 64);
    s->dv = srv_options_int(options, SRV_FIELD_SHAPE_DV, s->d);
    s->batch = srv_options_int(options, SRV_FIELD_SHAPE_BATCH, 1);
    attn_status status = srv_params_read(&call->params, s, inputs, options, error);
    if (status == ATTN_OK)
        status = srv_call_read_masks(call, NULL, options, error);
    return status;
}

void srv_call_free(srv_call *call)
{
    free(call->key_mask);
    *call = (srv_call){0};
}
