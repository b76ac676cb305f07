/* The tensors of an attention layer, Linformer's projections among them. */
#include "model/loaded.h"

static const char *const prefixes[] = {"attn.", "self_attn.", "mixer.", "", NULL};
static const char *const here_or_shared[] = {"", NULL};

bool attn_attention_found(const attn_model *model, const char *base)
{
    return attn_model_finds(model, base, prefixes, "q_proj.weight");
}

/* Heads and their size, as configuration and q_proj give them. */
static attn_status find_heads(attn_model *model, const char *prefix, attn_attention *a,
                              attn_error *error)
{
    const attn_model_config *config = &model->config;
    const attn_stored *q = attn_weights_need(model->weights, prefix, "q_proj.weight",
                                             ATTN_DIMS(ATTN_ANY, ATTN_ANY), error);
    if (!q)
        return error->status;
    int64_t rows = q->dim[0];
    if (!config->heads && !config->head_dim)
        return attn_error_set(error, ATTN_INVALID, "num_attention_heads",
                              "config.json: num_attention_heads is missing; the %lld rows of "
                              "%sq_proj.weight do not tell how many heads share them",
                              (long long)rows, prefix);
    a->head_dim = config->head_dim ? config->head_dim : rows / config->heads;
    a->heads = config->heads ? config->heads : rows / a->head_dim;
    if (a->heads > 0 && a->head_dim > 0 && a->heads <= rows && a->heads * a->head_dim == rows)
        return ATTN_OK;
    return attn_error_set(
        error, ATTN_INVALID, "num_attention_heads",
        "model.safetensors: %sq_proj.weight has %lld rows, expected %lld: %lld heads of %lld, as "
        "config.json has them",
        prefix, (long long)rows, (long long)(a->heads * a->head_dim), (long long)a->heads,
        (long long)a->head_dim);
}

static attn_status find_kv_heads(attn_model *model, const char *prefix, attn_attention *a,
                                 attn_error *error)
{
    a->kv_heads = model->config.kv_heads;
    if (!a->kv_heads) {
        const attn_stored *k = attn_weights_need(model->weights, prefix, "k_proj.weight",
                                                 ATTN_DIMS(ATTN_ANY, ATTN_ANY), error);
        if (!k)
            return error->status;
        a->kv_heads = k->dim[0] / a->head_dim;
    }
    if (a->kv_heads > 0 && a->heads % a->kv_heads == 0)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "num_key_value_heads",
                          "config.json: %lld key heads do not divide %lld heads evenly",
                          (long long)a->kv_heads, (long long)a->heads);
}

attn_status attn_attention_take(attn_model *model, const char *base, attn_attention *a,
                                attn_error *error)
{
    const char *prefix = attn_model_prefix(model, base, prefixes, "q_proj.weight", error);
    if (!prefix)
        return ATTN_NO_MEMORY;
    attn_status status = find_heads(model, prefix, a, error);
    if (status == ATTN_OK)
        status = find_kv_heads(model, prefix, a, error);
    if (status != ATTN_OK)
        return status;
    int64_t queries = a->heads * a->head_dim, keys = a->kv_heads * a->head_dim;
    int64_t hidden = model->hidden ? model->hidden : ATTN_ANY;
    bool short_name = !attn_weights_find(model->weights, prefix, "out_proj.weight") &&
                      attn_weights_find(model->weights, prefix, "o_proj.weight");
    status = attn_linear_take(model, prefix, "q_proj", queries, hidden, ATTN_UNSAID, &a->q, error);
    model->hidden = a->q.weight.columns;
    if (status == ATTN_OK)
        status = attn_linear_take(model, prefix, "k_proj", keys, model->hidden, ATTN_UNSAID, &a->k,
                                  error);
    if (status == ATTN_OK)
        status = attn_linear_take(model, prefix, "v_proj", keys, model->hidden, ATTN_UNSAID, &a->v,
                                  error);
    if (status == ATTN_OK)
        status = attn_linear_take(model, prefix, short_name ? "o_proj" : "out_proj", model->hidden,
                                  queries, ATTN_UNSAID, &a->out, error);
    return status;
}

/* Where the layer's E or compress_k lies: with the layer, or for all layers at the top. NULL: no
 * memory. */
static const char *projection_prefix(attn_model *model, const char *base, const char *name,
                                     attn_error *error)
{
    if (attn_model_finds(model, base, prefixes, name))
        return attn_model_prefix(model, base, prefixes, name, error);
    return attn_model_prefix(model, "", here_or_shared, name, error);
}

static bool found_anywhere(const attn_model *model, const char *base, const char *name)
{
    return attn_model_finds(model, base, prefixes, name) ||
           attn_model_finds(model, "", here_or_shared, name);
}

bool attn_projection_found(const attn_model *model, const char *base)
{
    return found_anywhere(model, base, "E") || found_anywhere(model, base, "compress_k.weight");
}

/* One matrix as (k, length), whatever way round its name says that it is stored. */
static attn_status take_matrix(attn_model *model, const char *base, const char *name,
                               bool transposed, attn_attention *a, const float **to,
                               attn_error *error)
{
    int64_t k = a->projected ? a->projected : ATTN_ANY, length = a->length ? a->length : ATTN_ANY;
    const char *prefix = projection_prefix(model, base, name, error);
    if (!prefix)
        return ATTN_NO_MEMORY;
    *to = transposed
              ? attn_weights_transposed(model->weights, prefix, name, length, k, error)
              : attn_weights_floats(model->weights, prefix, name, ATTN_DIMS(k, length), error);
    if (!*to)
        return error->status;
    const attn_stored *stored = attn_weights_find(model->weights, prefix, name);
    a->projected = stored->dim[transposed ? 1 : 0];
    a->length = stored->dim[transposed ? 0 : 1];
    return ATTN_OK;
}

attn_status attn_projection_take(attn_model *model, const char *base, const attn_mix_params *mix,
                                 attn_attention *a, attn_error *error)
{
    bool transposed = !found_anywhere(model, base, "compress_k.weight");
    const char *e = transposed ? "E" : "compress_k.weight";
    const char *f = transposed ? "F" : "compress_v.weight";
    a->projected = mix->k;
    a->length = mix->projection_length;
    attn_status status = take_matrix(model, base, e, transposed, a, &a->e, error);
    a->f = a->e;
    if (status == ATTN_OK && found_anywhere(model, base, f))
        status = take_matrix(model, base, f, transposed, a, &a->f, error);
    return status;
}
