/* The tensors of a Mamba block: the official one's, by the names of state-spaces/mamba, which
 * transformers shares, or the article's SelectiveSSM, whose x_proj gives B, C, dt in that order and
 * a dt of rank 1. */
#include "kernels/kernels.h"
#include "model/loaded.h"

static const char *const prefixes[] = {"mamba.", "mixer.", "backbone.layers.0.mixer.", "", NULL};

static const char marker[] = "in_proj.weight";

enum {
    MOST_STATES = 1 << 16
};

bool attn_mamba_found(const attn_model *model, const char *base)
{
    return attn_model_finds(model, base, prefixes, marker);
}

static int64_t or_any(int64_t size)
{
    return size ? size : ATTN_ANY;
}

/* Di, as far as the configuration says it. */
static int64_t inner_of(const attn_model *model, const attn_mamba_config *config)
{
    if (config->d_inner)
        return config->d_inner;
    return config->expand && model->hidden ? config->expand * model->hidden : 0;
}

static attn_status take_in_proj(attn_model *model, const char *prefix,
                                const attn_mamba_config *config, attn_mamba *m, attn_error *error)
{
    int64_t inner = inner_of(model, config);
    attn_status status = attn_linear_take(model, prefix, "in_proj", inner ? 2 * inner : ATTN_ANY,
                                          or_any(model->hidden), config->bias, &m->in_proj, error);
    if (status != ATTN_OK)
        return status;
    int64_t rows = m->in_proj.weight.rows;
    if (rows % 2 != 0)
        return attn_error_set(
            error, ATTN_INVALID, "in_proj.weight",
            "model.safetensors: %sin_proj.weight has %lld rows, expected an even number: x and z",
            prefix, (long long)rows);
    m->inner = rows / 2;
    model->hidden = m->in_proj.weight.columns;
    return ATTN_OK;
}

static attn_status take_convolution(attn_model *model, const char *prefix,
                                    const attn_mamba_config *config, attn_mamba *m,
                                    attn_error *error)
{
    const float *weight =
        attn_weights_floats(model->weights, prefix, "conv1d.weight",
                            ATTN_DIMS(m->inner, 1, or_any(config->d_conv)), error);
    if (!weight)
        return error->status;
    int64_t taps = attn_weights_find(model->weights, prefix, "conv1d.weight")->dim[2];
    if (taps > ATTN_CONV_MOST_WIDTH)
        return attn_error_set(
            error, ATTN_UNSUPPORTED, "conv1d.weight",
            "model.safetensors: %sconv1d.weight has %lld taps, expected at most %d", prefix,
            (long long)taps, ATTN_CONV_MOST_WIDTH);
    m->taps = (int)taps;
    float *prepared = attn_model_block(model, (size_t)(taps * m->inner) * sizeof *prepared, error);
    if (!prepared)
        return ATTN_NO_MEMORY;
    attn_conv_prepare(weight, m->inner, m->taps, prepared);
    m->conv = prepared;
    return attn_vector_take(model, prefix, "conv1d.bias", m->inner, config->conv_bias,
                            &m->conv_bias, error);
}

static attn_status take_state(attn_model *model, const char *prefix,
                              const attn_mamba_config *config, attn_mamba *m, attn_error *error)
{
    const float *a_log = attn_weights_floats(model->weights, prefix, "A_log",
                                             ATTN_DIMS(m->inner, or_any(config->d_state)), error);
    if (!a_log)
        return error->status;
    m->states = attn_weights_find(model->weights, prefix, "A_log")->dim[1];
    if (m->states > MOST_STATES)
        return attn_error_set(error, ATTN_UNSUPPORTED, "A_log",
                              "model.safetensors: %sA_log has %lld states, expected at most %d",
                              prefix, (long long)m->states, MOST_STATES);
    size_t floats = attn_scan_floats(m->inner, (int)m->states);
    float *a = attn_model_block(model, floats * sizeof *a, error);
    if (!a)
        return ATTN_NO_MEMORY;
    attn_scan_prepare(a_log, m->inner, (int)m->states, a);
    m->a = a;
    return attn_vector_take(model, prefix, "D", m->inner, ATTN_YES, &m->skip, error);
}

static attn_status take_selection(attn_model *model, const char *prefix,
                                  const attn_mamba_config *config, attn_mamba *m, attn_error *error)
{
    bool article = config->variant == ATTN_MAMBA_ARTICLE;
    int64_t rank = article ? 1 : or_any(config->dt_rank);
    attn_status status =
        attn_linear_take(model, prefix, "dt_proj", m->inner, rank, ATTN_NO, &m->dt_proj, error);
    if (status != ATTN_OK)
        return status;
    m->rank = m->dt_proj.weight.columns;
    m->euler = config->discretization == ATTN_EULER;
    m->dt_at = article ? 2 * m->states : 0;
    m->b_at = article ? 0 : m->rank;
    m->c_at = m->b_at + m->states;
    status = attn_linear_take(model, prefix, "x_proj", m->rank + 2 * m->states, m->inner, ATTN_NO,
                              &m->x_proj, error);
    if (status == ATTN_OK)
        status = attn_vector_take(model, prefix, "dt_proj.bias", m->inner, ATTN_UNSAID, &m->dt_bias,
                                  error);
    return status;
}

attn_status attn_mamba_take(attn_model *model, const char *base, const attn_mamba_config *config,
                            attn_mamba *m, attn_error *error)
{
    const char *prefix = attn_model_prefix(model, base, prefixes, marker, error);
    if (!prefix)
        return ATTN_NO_MEMORY;
    attn_status status = take_in_proj(model, prefix, config, m, error);
    if (status == ATTN_OK)
        status = take_convolution(model, prefix, config, m, error);
    if (status == ATTN_OK)
        status = take_state(model, prefix, config, m, error);
    if (status == ATTN_OK)
        status = take_selection(model, prefix, config, m, error);
    if (status == ATTN_OK)
        status = attn_linear_take(model, prefix, "out_proj", model->hidden, m->inner, config->bias,
                                  &m->out_proj, error);
    return status;
}
