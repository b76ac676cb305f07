/* Performer: given and drawn directions agree, the normaliser fits its sums whatever q and k are,
 * numbers at float32's ends are told from hidden keys, and sums that are cut into ranges make
 * tiles that are short, and the answer of the formula. */
#include "attn/blas.h"
#include "mixers/directions.h"
#include "tests/support/attend.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static attn_mix_params params_of(int64_t features, int64_t d)
{
    attn_mix_params params;
    attn_mix_params_init(&params, d);
    params.features = features;
    return params;
}

static void run(const attn_shape *s, const attend_arrays *arrays, const attn_mix_params *params,
                const attn_mask *mask, attn_isa isa)
{
    attend_call call = attend_dense(s, arrays, isa);
    call.mixer = "performer";
    call.params = params;
    call.mask = *mask;
    attend_result result;
    attn_error error = {0};
    attn_status status = attend_run(&call, &result, &error);
    CHECK(status == ATTN_OK, "%s", error.message);
}

/* All directions that the parameters ask for; free() it. */
static float *draw(const attn_mix_params *params, int64_t d)
{
    float *omega = malloc((size_t)(params->features * d) * sizeof *omega);
    void *workspace = malloc(attn_directions_bytes(params, d) + 1);
    const attn_rates rates = attn_rates_default();
    for (int phase = 0; phase < attn_directions_phases(params, d); phase++)
        for (int64_t i = 0; i < attn_directions_phase(params, d, phase, &rates).tiles; i++)
            attn_directions_run(params, d, phase, i, workspace, omega);
    free(workspace);
    return omega;
}

static void check_drawn(attn_mix_params params, bool causal, attn_isa isa)
{
    const attn_shape shape = {2, 2, 1, 600, 600, 7, 3};
    const attn_mask mask = {.causal = causal};
    attend_arrays arrays = attend_arrays_open(&shape, 1);
    size_t bytes = arrays.out_count * sizeof(float);
    float *drawn = malloc(bytes), *omega = draw(&params, 7);
    run(&shape, &arrays, &params, &mask, isa);
    memcpy(drawn, arrays.out, bytes);
    params.omega = omega;
    run(&shape, &arrays, &params, &mask, isa);
    CHECK(memcmp(drawn, arrays.out, bytes) == 0,
          "%s%s orthogonal %d norm %d: drawn and given differ", attn_isa_name(isa),
          causal ? " causal" : "", params.orthogonal, (int)params.norm);
    free(drawn);
    free(omega);
    attend_arrays_close(&arrays);
}

static void test_drawn_is_given(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int kind = 0; kind < 6; kind++) {
            attn_mix_params params = params_of(20, 7);
            params.seed = 12;
            params.orthogonal = kind / 2 != 2;
            params.norm = kind / 2 == 1 ? ATTN_NORM_SQRT : ATTN_NORM_CHI;
            check_drawn(params, kind % 2 != 0, k->isa);
        }
}

static void scale_all(float *x, int64_t count, float gain)
{
    for (int64_t i = 0; i < count; i++)
        x[i] *= gain;
}

/* Where all values are equal the answer is that value, and finite, for any q and k: numerator and
 * normaliser are the same sums. 1e-5 of 5 is 33 roundings; errors of features cancel. */
static void check_constant(int64_t n, int64_t m, int64_t features, float gain, bool causal,
                           attn_isa isa)
{
    const attn_shape shape = {1, 2, 1, n, m, 16, 3};
    const attn_mix_params params = params_of(features, 16);
    const attn_mask mask = {.causal = causal};
    attend_arrays arrays = attend_arrays_open(&shape, 2);
    scale_all(arrays.q, 2 * n * 16, gain);
    scale_all(arrays.k, m * 16, gain);
    for (int64_t i = 0; i < m * 3; i++)
        arrays.v[i] = 5;
    run(&shape, &arrays, &params, &mask, isa);
    for (size_t i = 0; i < arrays.out_count; i++) {
        bool sees = !causal || (int64_t)(i / 3) % n + m - n >= 0;
        CHECK(fabsf(arrays.out[i] - (sees ? 5.0F : 0.0F)) <= 1e-5F,
              "%s n %d m %d features %d gain %g%s: element %zu is %.9g", attn_isa_name(isa), (int)n,
              (int)m, (int)features, gain, causal ? " causal" : "", i, arrays.out[i]);
    }
    attend_arrays_close(&arrays);
}

static void test_constant_values(void)
{
    static const int64_t sizes[][2] = {{1, 1},     {20, 1},    {1, 20},     {40, 40},
                                       {200, 700}, {700, 200}, {1100, 1100}};
    static const float gains[] = {0, 1, 30, 1000};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int i = 0; i < 7; i++)
            for (int kind = 0; kind < 16; kind++)
                check_constant(sizes[i][0], sizes[i][1], kind % 2 ? 1 : 65, gains[kind / 4],
                               kind / 2 % 2 != 0, k->isa);
}

/* The last query of a causal call sees what all see without a mask. Sums are taken key by key here
 * and by blocks there: 600 keys and 64 features round to 664 * 2^-24 of the largest |v| < 5. */
static void test_last_row_sees_all(void)
{
    const attn_shape shape = {1, 1, 1, 600, 600, 8, 4};
    const attn_mix_params params = params_of(64, 8);
    attend_arrays arrays = attend_arrays_open(&shape, 3);
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        float last[4];
        run(&shape, &arrays, &params, &(const attn_mask){.causal = true}, k->isa);
        memcpy(last, arrays.out + 599 * 4, sizeof last);
        run(&shape, &arrays, &params, &(const attn_mask){0}, k->isa);
        for (int c = 0; c < 4; c++)
            CHECK(fabsf(last[c] - arrays.out[599 * 4 + c]) <= 5 * 664 * 0x1p-24F,
                  "%s: %.9g causal, %.9g not", attn_isa_name(k->isa), last[c],
                  arrays.out[599 * 4 + c]);
    }
    attend_arrays_close(&arrays);
}

/* A call of two keys and one query of 2 columns, answering one number. */
static float ask(const float q[2], const float k[4], const uint8_t *key_mask, bool causal,
                 attn_isa isa)
{
    const attn_shape shape = {1, 1, 1, 1, 2, 2, 1};
    const attn_mix_params params = params_of(9, 2);
    const attn_mask mask = {.causal = causal, .key_mask = key_mask};
    attend_arrays arrays = attend_arrays_open(&shape, 4);
    memcpy(arrays.q, q, 2 * sizeof *q);
    memcpy(arrays.k, k, 4 * sizeof *k);
    arrays.v[0] = 7;
    arrays.v[1] = 9;
    run(&shape, &arrays, &params, &mask, isa);
    float answer = arrays.out[0];
    attend_arrays_close(&arrays);
    return answer;
}

/* A hidden key's numbers are nobody's concern, a visible key that overflows is not taken for a
 * hidden one, and a row without a key is 0 whatever its query is. */
static void test_ends_of_float(void)
{
    static const float one[] = {1, 1}, huge[] = {3e38F, 3e38F};
    static const float second_huge[] = {1, 2, 3e38F, 3e38F}, both_huge[] = {1e20F, 1, 1, 1e20F};
    static const float first_huge[] = {-3e38F, 3e38F, 1, 2}, plain[] = {1, 2, 3, 4};
    static const uint8_t first[] = {1, 0}, second[] = {0, 1}, none[] = {0, 0};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int causal = 0; causal < 2; causal++) {
            float kept = ask(one, second_huge, first, causal != 0, k->isa);
            CHECK(fabsf(kept - 7) < 1e-5F, "%s: %g beside a hidden key", attn_isa_name(k->isa),
                  kept);
            kept = ask(one, first_huge, second, causal != 0, k->isa);
            CHECK(fabsf(kept - 9) < 1e-5F, "%s: %g after a hidden key", attn_isa_name(k->isa),
                  kept);
            float overflown = ask(one, both_huge, NULL, causal != 0, k->isa);
            CHECK(isnan(overflown), "%s: %g of keys that overflow", attn_isa_name(k->isa),
                  overflown);
            float empty = ask(huge, plain, none, causal != 0, k->isa);
            CHECK(empty == 0 && !signbit(empty), "%s: %g of no key", attn_isa_name(k->isa), empty);
        }
}

/* Attention with features 2^(omega x'), as the formula has it. */
typedef struct wide_case {
    attn_shape shape;
    attn_mix_params params; /* with omega */
    attend_arrays arrays;
    double *queries, *keys; /* exponents: (n, features), (m, features); NULL until wide_project */
} wide_case;

static void project(const wide_case *w, const float *x, int64_t rows, bool keys, double *to)
{
    int64_t d = w->shape.d, features = w->params.features;
    double root = sqrt((double)w->params.scale) / log(2);
    for (int64_t i = 0; i < rows; i++) {
        double square = 0;
        for (int64_t c = 0; c < d; c++)
            square += (double)x[i * d + c] * x[i * d + c];
        double shift = keys ? square * w->params.scale / 2 / log(2) : 0;
        for (int64_t f = 0; f < features; f++) {
            double sums[4] = {0};
            for (int64_t c = 0; c < d; c++)
                sums[c % 4] += (double)x[i * d + c] * w->params.omega[f * d + c];
            to[i * features + f] = root * (sums[0] + sums[1] + sums[2] + sums[3]) - shift;
        }
    }
}

/* Of one head, d = dv; q and k are short enough for exponents of some tens. */
static wide_case wide_open(int64_t n, int64_t d, int64_t features, bool causal)
{
    wide_case w = {.shape = {1, 1, 1, n, n, d, d}, .params = params_of(features, d)};
    w.params.seed = 4;
    w.params.mask.causal = causal;
    w.params.omega = draw(&w.params, d);
    w.arrays = attend_arrays_open(&w.shape, 5);
    scale_all(w.arrays.q, n * d, 0.5F);
    scale_all(w.arrays.k, n * d, 0.5F);
    return w;
}

static void wide_project(wide_case *w)
{
    size_t bytes = (size_t)(w->shape.n * w->params.features) * sizeof(double);
    w->queries = malloc(bytes);
    w->keys = malloc(bytes);
    project(w, w->arrays.q, w->shape.n, false, w->queries);
    project(w, w->arrays.k, w->shape.m, true, w->keys);
}

static void wide_close(wide_case *w)
{
    free((float *)w->params.omega);
    free(w->queries);
    free(w->keys);
    attend_arrays_close(&w->arrays);
}

/* Row i of the answer. */
static void wide_answer(const wide_case *w, const attn_mask *mask, int64_t i, double *out)
{
    int64_t features = w->params.features, dv = w->shape.dv;
    double total = 0;
    memset(out, 0, (size_t)dv * sizeof *out);
    for (int64_t j = 0; j < w->shape.m; j++) {
        if (!attend_sees(&w->shape, mask, 0, i, j))
            continue;
        double weight = 0;
        for (int64_t f = 0; f < features; f++)
            weight += exp2(w->queries[i * features + f] + w->keys[j * features + f]);
        total += weight;
        for (int64_t c = 0; c < dv; c++)
            out[c] += weight * w->arrays.v[j * dv + c];
    }
    for (int64_t c = 0; total > 0 && c < dv; c++)
        out[c] /= total;
}

/* An exponent is a product of d terms in float32, off by at most some sqrt(d) 2^-24 |w| |x'| in
 * either factor (|w| is below 2 sqrt(d), |x'| below d^(1/4)), and so are numerator and
 * normaliser, each in relation to |v| < 5. */
static double wide_tolerance(const wide_case *w)
{
    double d = (double)w->shape.d;
    return 4 * sqrt(d) * 0x1p-24 * 2 * sqrt(d) * sqrt(sqrt(d)) * 5;
}

static int query_passes(const attn_plan *plan)
{
    int passes = 0;
    for (int p = 0; p < plan->phase_count; p++)
        passes += strcmp(plan->phases[p].name, "queries") == 0;
    return passes;
}

/* Sums that are cut into ranges: the answer of the formula, and the same bits in any order. */
static void check_wide(wide_case *w, const attn_mask *mask, attn_isa isa)
{
    const attn_shape *s = &w->shape;
    size_t bytes = w->arrays.out_count * sizeof(float);
    float *first = malloc(bytes);
    double *wanted = malloc((size_t)s->dv * sizeof *wanted), worst = 0;
    for (int order = 0; order < ATTEND_ORDERS; order++) {
        attend_call call = attend_dense(s, &w->arrays, isa);
        call.mixer = "performer";
        call.params = &w->params;
        call.mask = *mask;
        call.order = (attend_order)order;
        attend_result result;
        attn_error error = {0};
        attn_status status = attend_run(&call, &result, &error);
        CHECK(status == ATTN_OK && query_passes(&result.plan) > 1, "%s: %s %d passes",
              attn_isa_name(isa), error.message, query_passes(&result.plan));
        if (order == 0)
            memcpy(first, w->arrays.out, bytes);
        CHECK(memcmp(first, w->arrays.out, bytes) == 0, "%s: order %d of tiles changes bits",
              attn_isa_name(isa), order);
    }
    for (int64_t i = 0; i < s->n; i += 11) {
        wide_answer(w, mask, i, wanted);
        for (int64_t c = 0; c < s->dv; c++)
            worst = fmax(worst, fabs(first[i * s->dv + c] - wanted[c]));
    }
    CHECK(worst <= wide_tolerance(w), "%s%s d %d features %d: off by %g, allowed %g",
          attn_isa_name(isa), mask->causal ? " causal" : "", (int)s->d, (int)w->params.features,
          worst, wide_tolerance(w));
    free(first);
    free(wanted);
}

/* Without and with keys that are hidden, the first ones among them; an answer of no key is 0. */
static void check_wide_masks(wide_case *w, attn_isa isa)
{
    uint8_t *key_mask = malloc((size_t)w->shape.m);
    for (int64_t j = 0; j < w->shape.m; j++)
        key_mask[j] = j > 30 && j % 5 != 0;
    attn_mask mask = {.causal = w->params.mask.causal};
    check_wide(w, &mask, isa);
    mask.key_mask = key_mask;
    check_wide(w, &mask, isa);
    free(key_mask);
}

static void test_wide_sums(void)
{
    wide_case full = wide_open(128, 512, 2100, false), causal = wide_open(600, 64, 1100, true);
    wide_project(&full);
    wide_project(&causal);
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        check_wide_masks(&full, k->isa);
        check_wide_masks(&causal, k->isa);
    }
    wide_close(&full);
    wide_close(&causal);
}

/* No bit of an earlier row depends on later keys in any pass. */
static void test_wide_sums_see_no_future(void)
{
    const int64_t changed = 300, columns = 64;
    wide_case w = wide_open(600, columns, 1100, true);
    const attn_mask mask = {.causal = true};
    size_t bytes = (size_t)(changed * columns) * sizeof(float);
    float *before = malloc(bytes);
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        run(&w.shape, &w.arrays, &w.params, &mask, k->isa);
        memcpy(before, w.arrays.out, bytes);
        scale_all(w.arrays.k + changed * columns, (600 - changed) * columns, -3);
        scale_all(w.arrays.v + changed * columns, (600 - changed) * columns, -100);
        run(&w.shape, &w.arrays, &w.params, &mask, k->isa);
        CHECK(memcmp(before, w.arrays.out, bytes) == 0, "%s: a change of key %d is seen before it",
              attn_isa_name(k->isa), (int)changed);
    }
    free(before);
    wide_close(&w);
}

/* Padding changes no bit, though a padded call is longer than a tile and the plain one is not. */
static void check_wide_padding(int64_t length, int64_t d, int64_t features, bool causal,
                               attn_isa isa)
{
    wide_case w = wide_open(600, d, features, causal);
    size_t bytes = (size_t)(length * d) * sizeof(float);
    float *padded = malloc(bytes);
    const attn_shape part = {1, 1, 1, length, length, d, d};
    const attn_mask mask = {.causal = causal}, prefix = {.causal = causal, .lengths = &length};
    run(&w.shape, &w.arrays, &w.params, &prefix, isa);
    memcpy(padded, w.arrays.out, bytes);
    run(&part, &w.arrays, &w.params, &mask, isa);
    CHECK(memcmp(padded, w.arrays.out, bytes) == 0, "%s%s: padding %d rows changes bits",
          attn_isa_name(isa), causal ? " causal" : "", (int)length);
    free(padded);
    wide_close(&w);
}

static void test_wide_sums_and_padding(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        check_wide_padding(90, 64, 1100, true, k->isa);
        check_wide_padding(90, 256, 4200, false, k->isa);
    }
}

/* What cancelling and deadlines wait for: at 50 operations a nanosecond no tile is predicted to
 * take 20 ms, for any sizes up to 4096 whose q, k and v fit into a GiB a head. */
static void check_tiles(const attn_shape *s, int64_t features, bool causal)
{
    const attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 50);
    attn_mix_params params = params_of(features, s->d);
    params.mask.causal = causal;
    attn_plan plan;
    attn_error error = {0};
    attn_status status =
        attn_mixer_plan(attn_mixer_find("performer"), &machine, &params, s, &plan, &error);
    CHECK(status == ATTN_OK, "%s", error.message);
    for (int p = 0; p < plan.phase_count; p++)
        CHECK(plan.phases[p].tile_ns <= 20e6,
              "n %d d %d dv %d features %d%s: a tile of %s takes %.1f ms", (int)s->n, (int)s->d,
              (int)s->dv, (int)features, causal ? " causal" : "", plan.phases[p].name,
              plan.phases[p].tile_ns * 1e-6);
}

static void test_short_tiles(void)
{
    static const int64_t lengths[] = {1, 500, 4096, 30000, 1 << 20};
    static const int64_t widths[] = {1, 64, 257, 1030, 4096};
    for (int n = 0; n < 5; n++)
        for (int d = 0; d < 5; d++)
            for (int dv = 0; dv < 5; dv++)
                for (int f = 0; f < 5; f++) {
                    const attn_shape s = {1, 1, 1, lengths[n], lengths[n], widths[d], widths[dv]};
                    if (s.n * (s.d + s.dv) > 1 << 28)
                        continue;
                    check_tiles(&s, widths[f], false);
                    check_tiles(&s, widths[f], true);
                }
}

int main(void)
{
    attn_blas_init();
    static const test_case cases[] = {
        {"drawn is given", test_drawn_is_given},
        {"constant values", test_constant_values},
        {"last row sees all", test_last_row_sees_all},
        {"ends of float", test_ends_of_float},
        {"wide sums", test_wide_sums},
        {"wide sums see no future", test_wide_sums_see_no_future},
        {"wide sums and padding", test_wide_sums_and_padding},
        {"short tiles", test_short_tiles},
        {NULL, NULL},
    };
    return test_main("performer", cases);
}
