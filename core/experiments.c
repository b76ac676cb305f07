/* The programs that rates are measured with: mixers' plans and a model's steps, each about a
 * millisecond long and such that its own rate weighs most. */
#include "experiments.h"

#include "kernels/scan.h"

#include <stddef.h>

enum {
    CHANNELS = 64, /* of Mamba, and its hidden columns */
    STATES = 16,
    TAPS = 4,
    RANK = 8,
};

size_t attn_lab_scan_floats(void)
{
    return attn_scan_floats(CHANNELS, STATES);
}

static attn_linear linear(const float *weights, attn_dtype dtype, int64_t out, int64_t in)
{
    return (attn_linear){.weight = {weights, dtype, out, in}, .prefix = "", .name = ""};
}

void attn_lab_init(attn_lab *lab, const float *weights, float *scan)
{
    attn_scan_prepare(weights, CHANNELS, STATES, scan);
    *lab = (attn_lab){.weights = weights};
    lab->mamba = (attn_mamba){.inner = CHANNELS,
                              .states = STATES,
                              .rank = RANK,
                              .taps = TAPS,
                              .euler = true,
                              .in_proj = linear(weights, ATTN_FP32, 2 * CHANNELS, CHANNELS),
                              .x_proj = linear(weights, ATTN_FP32, RANK + 2 * STATES, CHANNELS),
                              .dt_proj = linear(weights, ATTN_FP32, CHANNELS, RANK),
                              .out_proj = linear(weights, ATTN_FP32, CHANNELS, CHANNELS),
                              .b_at = RANK,
                              .c_at = RANK + STATES,
                              .conv = weights,
                              .a = scan,
                              .skip = weights};
}

static attn_status build_raw(const attn_experiment *x, const attn_lab *lab,
                             const attn_machine *machine, attn_program **program, attn_error *error)
{
    attn_mix_params params;
    attn_shape shape = x->shape;
    shape.heads = shape.kv_heads = x->heads ? x->heads : 1;
    attn_mix_params_init(&params, shape.d);
    params.mask.causal = x->causal;
    params.projection = x->projection;
    params.k = x->k;
    params.features = x->features;
    params.omega = x->draws ? NULL : lab->weights;
    return attn_program_attend(program, machine, attn_mixer_find(x->mixer), &params, &shape, NULL,
                               error);
}

static attn_region input(const attn_shape *s)
{
    return attn_region_rows(ATTN_ARRAY_INPUT, 0, s->n, s->d);
}

static attn_region output(const attn_shape *s)
{
    return attn_region_rows(ATTN_ARRAY_OUT, 0, s->n, s->m);
}

static attn_status add_product(const attn_experiment *x, const attn_lab *lab,
                               const attn_machine *machine, attn_program *program,
                               attn_error *error)
{
    const attn_shape *s = &x->shape;
    const attn_product product = {.linear = linear(lab->weights, x->dtype, s->m, s->d),
                                  .x = input(s),
                                  .y = output(s),
                                  .activates = x->activates,
                                  .activation = x->activation};
    return attn_products_add(program, machine, NULL, &product, 1, (attn_extent){1, s->n}, error);
}

static attn_status add_norm(const attn_experiment *x, const attn_lab *lab,
                            const attn_machine *machine, attn_program *program, attn_error *error)
{
    const attn_shape *s = &x->shape;
    const attn_row_norm norm = {.kind = ATTN_NORMALIZATION_LAYER,
                                .weight = lab->weights,
                                .bias = lab->weights,
                                .epsilon = 1};
    return attn_row_norm_add(program, &machine->rates, &norm, input(s), output(s),
                             (attn_extent){1, s->n}, s->d, error);
}

static attn_status add_mamba(const attn_experiment *x, const attn_lab *lab,
                             const attn_machine *machine, attn_program *program, attn_error *error)
{
    const attn_site site = {.batch = 1,
                            .n = x->shape.n,
                            .hidden = CHANNELS,
                            .x = attn_region_rows(ATTN_ARRAY_INPUT, 0, x->shape.n, CHANNELS),
                            .y = attn_region_rows(ATTN_ARRAY_OUT, 0, x->shape.n, CHANNELS)};
    return attn_mamba_add(program, machine, &lab->mamba, &site, error);
}

/* A program of one kind of step. */
static attn_status build_steps(attn_status (*add)(const attn_experiment *, const attn_lab *,
                                                  const attn_machine *, attn_program *,
                                                  attn_error *),
                               const attn_experiment *x, const attn_lab *lab,
                               const attn_machine *machine, attn_program **program,
                               attn_error *error)
{
    attn_program *made = attn_program_open();
    *program = NULL;
    if (!made)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a program");
    attn_status status = add(x, lab, machine, made, error);
    if (status == ATTN_OK)
        *program = made;
    else
        attn_program_close(made);
    return status;
}

#define BUILD(name)                                                                      \
    static attn_status build_##name(const attn_experiment *x, const attn_lab *lab,       \
                                    const attn_machine *machine, attn_program **program, \
                                    attn_error *error)                                   \
    {                                                                                    \
        return build_steps(add_##name, x, lab, machine, program, error);                 \
    }
BUILD(product)
BUILD(norm)
BUILD(mamba)

#define OF(rate_) .rate = offsetof(attn_rates, rate_)
#define RAW(mixer_, n_, m_, d_)            \
    .build = build_raw, .mixer = (mixer_), \
    .shape = {.batch = 1, .n = (n_), .m = (m_), .d = (d_), .dv = (d_)}
#define PRODUCT(n_, m_, d_) .build = build_product, .shape = {.n = (n_), .m = (m_), .d = (d_)}

const attn_experiment attn_experiments[] = {
    {OF(attend_flop_ns), RAW("exact", 96, 768, 128)},
    {OF(attend_score_ns), RAW("exact", 192, 768, 16)},
    {OF(attend_panel_ns), RAW("exact", 480, 8, 64)},
    {OF(attend_tile_ns), RAW("exact", 16, 16, 8), .heads = 64},
    {OF(product_flop_ns), PRODUCT(256, 256, 1024)},
    {OF(product_weight_ns), PRODUCT(4, 256, 1024)},
    {OF(widen_ns), PRODUCT(4, 256, 1024), .dtype = ATTN_BF16},
    {OF(gelu_ns), PRODUCT(256, 64, 16), .activates = true, .activation = ATTN_GELU},
    {OF(silu_ns), PRODUCT(256, 64, 16), .activates = true, .activation = ATTN_SILU},
    {OF(feature_ns), RAW("performer", 16, 1024, 16), .features = 128},
    {OF(causal_feature_ns), RAW("performer", 256, 256, 16), .features = 128, .causal = true,
     .phase = 2},
    {OF(causal_float_ns), RAW("performer", 256, 256, 128), .features = 128, .causal = true,
     .phase = 2},
    {OF(combine_float_ns), RAW("performer", 1024, 1024, 64), .features = 256, .causal = true,
     .phase = 1},
    {OF(scan_state_ns), .build = build_mamba, .shape = {.n = 512}, .phase = 4},
    {OF(conv_channel_ns), .build = build_mamba, .shape = {.n = 512}, .phase = 1},
    {OF(norm_float_ns), .build = build_norm, .shape = {.n = 64, .m = 512, .d = 512}},
    {OF(copy_float_ns), RAW("linformer", 1, 2048, 64), .k = 32, .projection = ATTN_MEAN},
    {OF(draw_ns), RAW("linformer", 1, 1024, 8), .k = 16, .projection = ATTN_GAUSSIAN},
    {OF(turn_ns), RAW("performer", 16, 16, 64), .features = 64, .draws = true, .phase = 1},
};
const int attn_experiment_count = sizeof attn_experiments / sizeof *attn_experiments;
