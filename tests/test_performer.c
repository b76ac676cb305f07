/* Performer: given and drawn directions agree, the normaliser fits its sums whatever q and k are,
 * and numbers at float32's ends are told from hidden keys. */
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
    double *basis = malloc((size_t)(d * d) * sizeof *basis);
    for (int64_t first = 0; first < params->features; first += d)
        attn_directions_draw(params, d, first, basis, omega);
    free(basis);
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

int main(void)
{
    static const test_case cases[] = {
        {"drawn is given", test_drawn_is_given},
        {"constant values", test_constant_values},
        {"last row sees all", test_last_row_sees_all},
        {"ends of float", test_ends_of_float},
        {NULL, NULL},
    };
    return test_main("performer", cases);
}
