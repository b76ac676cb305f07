/* Linformer beside what it must equal: its random projection given by hand, exact attention under
 * an identity, plain means; and what it refuses or warns of. */
#include "random.h"
#include "tests/support/attend.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static attn_mix_params params_of(attn_projection projection, int64_t k, int64_t d)
{
    attn_mix_params params;
    attn_mix_params_init(&params, d);
    params.projection = projection;
    params.k = k;
    return params;
}

/* The same with a learned projection (k, length), shared by all heads. */
static attn_mix_params given(const float *e, int64_t k, int64_t length, int64_t d)
{
    attn_mix_params params = params_of(ATTN_GIVEN, k, d);
    params.e = params.f = e;
    params.projection_heads = 1;
    params.projection_length = length;
    return params;
}

static attend_result run(const attn_shape *s, const attend_arrays *arrays,
                         const attn_mix_params *params, const attn_mask *mask, attn_isa isa)
{
    attend_call call = attend_dense(s, arrays, isa);
    call.mixer = params ? "linformer" : "exact";
    call.params = params;
    if (mask)
        call.mask = *mask;
    attend_result result;
    attn_error error = {0};
    attn_status status = attend_run(&call, &result, &error);
    CHECK(status == ATTN_OK, "%s", error.message);
    return result;
}

static double furthest(const float *a, const float *b, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)a[i] - b[i]);
        worst = !(off <= worst) ? off : worst;
    }
    return worst;
}

static float *keep(const attend_arrays *arrays)
{
    float *kept = malloc(arrays->out_count * sizeof *kept);
    memcpy(kept, arrays->out, arrays->out_count * sizeof *kept);
    return kept;
}

/* The projection is N(0, 1/k) by row and position, from stream 1 of the seed, E = F. */
static void test_gaussian_is_what_is_drawn(void)
{
    enum {
        K = 40,
        M = 1500
    };
    const attn_shape shape = {1, 2, 1, 70, M, 5, 3};
    attend_arrays arrays = attend_arrays_open(&shape, 1);
    float *e = malloc((size_t)K * M * sizeof *e);
    for (uint64_t r = 0; r < K; r++)
        for (uint64_t j = 0; j < M; j++)
            e[r * M + j] = (float)(1 / sqrt(K) * attn_random_normal(7, 1, r << 32 | j));
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        attn_mix_params by_hand = given(e, K, M, 5), drawn = params_of(ATTN_GAUSSIAN, K, 5);
        drawn.seed = 7;
        run(&shape, &arrays, &by_hand, NULL, k->isa);
        float *wanted = keep(&arrays);
        run(&shape, &arrays, &drawn, NULL, k->isa);
        CHECK(memcmp(wanted, arrays.out, arrays.out_count * sizeof *wanted) == 0,
              "%s: drawn and given differ", attn_isa_name(k->isa));
        drawn.seed = 8;
        run(&shape, &arrays, &drawn, NULL, k->isa);
        CHECK(memcmp(wanted, arrays.out, arrays.out_count * sizeof *wanted) != 0,
              "%s: the seed changes nothing", attn_isa_name(k->isa));
        free(wanted);
    }
    free(e);
    attend_arrays_close(&arrays);
}

/* An identity shortens nothing, nor do means of single positions: both are exact attention, each
 * within 1e-6 of the largest |v| (below 5). Sums with zeros are exact. */
static void test_nothing_shortened_is_exact(void)
{
    enum {
        M = 150
    };
    const attn_shape shape = {2, 4, 2, 60, M, 8, 5};
    static float identity[M * M];
    for (int i = 0; i < M; i++)
        identity[i * M + i] = 1;
    attend_arrays arrays = attend_arrays_open(&shape, 2);
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        const attn_mix_params all[] = {given(identity, M, M, 8), params_of(ATTN_MEAN, M, 8),
                                       params_of(ATTN_MEAN, 100000, 8)};
        run(&shape, &arrays, NULL, NULL, k->isa);
        float *wanted = keep(&arrays);
        for (int i = 0; i < 3; i++) {
            run(&shape, &arrays, &all[i], NULL, k->isa);
            double off = furthest(arrays.out, wanted, arrays.out_count);
            CHECK(off <= 1e-5, "%s, case %d: off by %g", attn_isa_name(k->isa), i, off);
        }
        free(wanted);
    }
    attend_arrays_close(&arrays);
}

/* One row of K' leaves no choice: every query answers F V, here the mean of the keys it may see as
 * counted over all of the length. 200 additions round to at most 200 * 2^-24 of the largest sum. */
static void test_one_segment_is_the_mean(void)
{
    const attn_shape shape = {1, 2, 1, 30, 200, 3, 4};
    attend_arrays arrays = attend_arrays_open(&shape, 3);
    static uint8_t key_mask[200];
    for (int j = 0; j < 200; j++)
        /* Any value but 0 leaves a key visible. */
        key_mask[j] = j % 4 ? (uint8_t)(j % 4 == 1 ? 255 : 2) : 0;
    const attn_mask mask = {.key_mask = key_mask};
    const attn_mix_params params = params_of(ATTN_MEAN, 1, 3);
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        run(&shape, &arrays, &params, &mask, k->isa);
        for (int c = 0; c < 4; c++) {
            double mean = 0;
            for (int j = 0; j < 200; j++)
                mean += key_mask[j] ? (double)arrays.v[j * 4 + c] / 200 : 0;
            for (int i = 0; i < 60; i++)
                CHECK(fabs(arrays.out[i * 4 + c] - mean) <= 200 * 0x1p-24,
                      "%s: row %d is %g, expected %g", attn_isa_name(k->isa), i,
                      arrays.out[i * 4 + c], mean);
        }
    }
    attend_arrays_close(&arrays);
}

/* Attention computes rows times projected keys, and nothing for padding: no edge costs more. */
static void test_work(void)
{
    const attn_shape shape = {3, 2, 1, 300, 300, 2, 2};
    attend_arrays arrays = attend_arrays_open(&shape, 4);
    static const int64_t lengths[] = {300, 20, 0};
    const attn_mask mask = {.lengths = lengths};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        const attn_mix_params mean = params_of(ATTN_MEAN, 50, 2);
        attn_mix_params drawn = params_of(ATTN_GAUSSIAN, 50, 2);
        uint64_t by_mean = run(&shape, &arrays, &mean, &mask, k->isa).scores;
        uint64_t by_draw = run(&shape, &arrays, &drawn, &mask, k->isa).scores;
        CHECK(by_mean == 2 * (300 * 50 + 20 * 20), "%s: %llu scores by means",
              attn_isa_name(k->isa), (unsigned long long)by_mean);
        CHECK(by_draw == 2 * (300 * 50 + 20 * 50), "%s: %llu scores by draw", attn_isa_name(k->isa),
              (unsigned long long)by_draw);
    }
    attend_arrays_close(&arrays);
}

static attn_status plan(const attn_mix_params *params, attn_plan *to, attn_error *error)
{
    static const attn_shape shape = {2, 4, 2, 100, 100, 8, 8};
    attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 0);
    *to = (attn_plan){0};
    return attn_mixer_plan(attn_mixer_find("linformer"), &machine, params, &shape, to, error);
}

static void test_refusals(void)
{
    static const float e[100] = {0};
    attn_plan planned;
    attn_error error = {0};
    attn_mix_params params = params_of(ATTN_MEAN, 10, 8);
    params.mask.causal = true;
    attn_status status = plan(&params, &planned, &error);
    CHECK(status == ATTN_UNSUPPORTED && strcmp(error.param, "causal") == 0 &&
              strstr(error.message, "exact"),
          "causal: %s \"%s\"", attn_status_name(status), error.message);
    error = (attn_error){0};
    params = given(e, 1, 100, 8);
    params.projection_heads = 3;
    status = plan(&params, &planned, &error);
    CHECK(status == ATTN_INVALID && strcmp(error.param, "e") == 0 && strstr(error.message, "3"),
          "3 heads: %s \"%s\"", attn_status_name(status), error.message);
}

/* A projection is stretched only with a warning that says from what to what. */
static void test_warning(void)
{
    static const float e[100] = {0};
    static const struct {
        int64_t covered, lengths[2];
        const char *words; /* NULL: no warning */
    } cases[] = {{100, {100, 100}, NULL},
                 {99, {100, 3}, "99 positions and was interpolated to 100"},
                 {50, {50, 7}, NULL},
                 {50, {7, 51}, "50 positions and was interpolated to 51"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_mix_params params = given(e, 1, cases[i].covered, 8);
        params.mask.lengths = cases[i].lengths;
        attn_plan planned;
        attn_status status = plan(&params, &planned, NULL);
        bool right = cases[i].words ? strstr(planned.warning, cases[i].words) != NULL
                                    : planned.warning[0] == '\0';
        CHECK(status == ATTN_OK && right, "case %zu: \"%s\"", i, planned.warning);
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"gaussian is what is drawn", test_gaussian_is_what_is_drawn},
        {"nothing shortened is exact", test_nothing_shortened_is_exact},
        {"one segment is the mean", test_one_segment_is_the_mean},
        {"work", test_work},
        {"refusals", test_refusals},
        {"warning", test_warning},
        {NULL, NULL},
    };
    return test_main("linformer", cases);
}
