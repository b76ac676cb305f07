/* Counting the numbers at both ends of a call. Of JSON all text that is not base64 counts as
 * numbers, which is what long bodies hold. */
#include "server/attend/transfer.h"

#include "server/codec/output.h"

enum {
    SAFETENSORS_SLICES = 2 /* besides one a tensor: the header, and finding the end */
};

static void add_answer(srv_transfer *t, const srv_call *call)
{
    const attn_shape *s = &call->shape;
    t->out_floats = (double)s->batch * (double)s->heads * (double)s->n * (double)s->dv;
    t->pieces = (int64_t)(t->out_floats / SRV_OUTPUT_PIECE) + 1;
}

/* Of a JSON body: decoding gives back what a client encoded of 4 bytes a number, or of fewer; a
 * tensor is never more than the body it is in. */
static double base64_bytes(const srv_tensor *const *tensors, int count, double body_bytes)
{
    const double characters_a_float = 16.0 / 3;
    double bytes = 0;
    for (int i = 0; i < count; i++)
        if (tensors[i] && tensors[i]->form == SRV_FORM_BASE64)
            bytes += (double)tensors[i]->count * characters_a_float;
    return bytes < body_bytes ? bytes : body_bytes;
}

srv_transfer srv_transfer_of(const srv_request *request, const srv_inputs *in, const srv_call *call,
                             const srv_options *options, int64_t slices)
{
    const srv_tensor *const tensors[] = {in->q, in->k,     in->v,     in->e,
                                         in->f, in->omega, in->input, in->key_mask};
    const int count = sizeof tensors / sizeof *tensors;
    double body_bytes = (double)request->body_length, floats = 0;
    srv_transfer t = {.model = call->model != NULL,
                      .json_in = request->format == SRV_FORMAT_JSON,
                      .json_out = request->wanted == SRV_FORMAT_JSON,
                      .slices = slices};
    for (int i = 0; i < count; i++)
        floats += tensors[i] ? (double)tensors[i]->count : 0;
    if (t.json_in) {
        t.base64_bytes = base64_bytes(tensors, count, body_bytes);
        t.number_bytes = body_bytes - t.base64_bytes;
    } else {
        const double narrow = 3, wide = 5; /* bytes a number, with its share of the header */
        bool is_float32 = body_bytes > narrow * floats && body_bytes < wide * floats;
        t.stored_floats = floats;
        t.converted_floats = is_float32 ? 0 : floats;
    }
    add_answer(&t, call);
    if (t.json_out && srv_options_bool(options, SRV_FIELD_RETURN_OUTPUT, true)) {
        const srv_tensor *like = in->input ? in->input : in->q;
        bool base64 = like && like->form == SRV_FORM_BASE64;
        *(base64 ? &t.base64_floats : &t.number_floats) = t.out_floats;
    }
    return t;
}

srv_transfer srv_transfer_of_shape(const srv_call *call)
{
    const attn_shape *s = &call->shape;
    double batch = (double)s->batch, heads = (double)s->heads, kv_heads = (double)s->kv_heads;
    srv_transfer t = {.model = call->model != NULL,
                      .slices = SAFETENSORS_SLICES + (call->model ? 1 : 3)};
    t.stored_floats = batch * heads * (double)s->n * (double)s->d;
    if (!call->model)
        t.stored_floats += batch * kv_heads * (double)s->m * (double)(s->d + s->dv);
    add_answer(&t, call);
    return t;
}
