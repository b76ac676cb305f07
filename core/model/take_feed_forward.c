/* The tensors of a feed-forward: up_proj, down_proj, and gate_proj where it is gated. */
#include "model/loaded.h"

attn_status attn_feed_forward_take(attn_model *model, const char *base,
                                   const attn_feed_forward_config *config, attn_feed_forward *f,
                                   attn_error *error)
{
    static const char *const prefixes[] = {"ffn.", "mlp.", "feed_forward.", "", NULL};
    const char *prefix = attn_model_prefix(model, base, prefixes, "up_proj.weight", error);
    int64_t wide = config->intermediate_size ? config->intermediate_size : ATTN_ANY;
    if (!prefix)
        return ATTN_NO_MEMORY;
    f->gated = config->gated;
    f->activation = config->activation;
    attn_status status =
        attn_linear_take(model, prefix, "up_proj", wide, model->hidden, ATTN_UNSAID, &f->up, error);
    f->intermediate = f->up.weight.rows;
    if (status == ATTN_OK && f->gated)
        status = attn_linear_take(model, prefix, "gate_proj", f->intermediate, model->hidden,
                                  ATTN_UNSAID, &f->gate, error);
    if (status == ATTN_OK)
        status = attn_linear_take(model, prefix, "down_proj", model->hidden, f->intermediate,
                                  ATTN_UNSAID, &f->down, error);
    return status;
}
