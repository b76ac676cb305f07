/* One attention call, checked: sizes, masks and scale out of a request's tensors and options. */
#ifndef SERVER_ATTEND_CALL_H
#define SERVER_ATTEND_CALL_H

#include "attn/model.h"
#include "server/attend/options.h"
#include "server/codec/tensor.h"
#include "server/cost/transfer.h"

/* The tensors a request may hold; NULL where it does not. Borrowed. */
typedef struct srv_inputs {
    const srv_tensor *q, *k, *v, *e, *f, *omega, *input, *key_mask;
} srv_inputs;

typedef struct srv_call {
    /* With a model, what it reads and writes are one head's rows of `hidden` columns. */
    attn_shape shape;
    attn_mix_params params;    /* borrows the options' lengths and the key_mask below; with a model
                                  only  the mask, and a scale the client gave */
    const attn_model *model;   /* borrowed; NULL: a raw call */
    int adapter;               /* index; -1: none */
    bool forward_only;         /* a model that only reads from left to right will do */
    int64_t longest;           /* valid keys of the longest batch row: the n of the routing rules */
    int rank;                  /* of q, and so of the answer */
    uint8_t *key_mask;         /* owned; NULL without one */
    attn_sampling sampling;    /* how many rows to hold against exact attention; 0: none */
    bool sampled_for_metrics;  /* nobody asked: it must not change what is chosen */
    bool wants_estimate;       /* the client asked for it by measure_error */
    double max_relative_error; /* what the client allows; 0: anything */
    srv_transfer transfer;     /* for predicting; filled by whoever reads the body */
} srv_call;

/* From tensors. Errors name the tensor or option at fault. srv_call_free ends the call whatever
 * this returns. */
attn_status srv_call_read(srv_call *call, const srv_inputs *inputs, const srv_options *options,
                          attn_error *error);

/* From the shape.* options alone, for planning without data. */
attn_status srv_call_from_shape(srv_call *call, const srv_inputs *inputs,
                                const srv_options *options, attn_error *error);

/* The same two for a loaded model, which the call borrows. */
attn_status srv_call_read_model(srv_call *call, const attn_model *model, const srv_inputs *inputs,
                                const srv_options *options, attn_error *error);
attn_status srv_call_from_model_shape(srv_call *call, const attn_model *model,
                                      const srv_options *options, attn_error *error);

void srv_call_free(srv_call *call);

#endif
