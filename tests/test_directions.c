/* Performer's directions: orthogonal within a block, of the lengths they should have, independent
 * of each other across blocks, those of the formula, and the same in whatever tiles and order. */
#include "mixers/directions.h"
#include "random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static attn_mix_params params_of(int64_t features, bool orthogonal, attn_norm norm, uint64_t seed)
{
    return (attn_mix_params){
        .features = features, .orthogonal = orthogonal, .norm = norm, .seed = seed};
}

/* All directions, tiles of each phase forward or backward; free() it. */
static float *draw_by(const attn_mix_params *params, int64_t d, bool backward)
{
    size_t bytes = (size_t)(params->features * d) * sizeof(float);
    float *omega = malloc(bytes);
    void *workspace = malloc(attn_directions_bytes(params, d) + 1);
    const attn_rates rates = attn_rates_default();
    memset(omega, 0xFF, bytes);
    memset(workspace, 0xFF, attn_directions_bytes(params, d));
    for (int phase = 0; phase < attn_directions_phases(params, d); phase++) {
        int64_t tiles = attn_directions_phase(params, d, phase, &rates).tiles;
        for (int64_t i = 0; i < tiles; i++)
            attn_directions_run(params, d, phase, backward ? tiles - 1 - i : i, workspace, omega);
    }
    free(workspace);
    return omega;
}

static float *draw(int64_t features, int64_t d, bool orthogonal, attn_norm norm, uint64_t seed)
{
    const attn_mix_params params = params_of(features, orthogonal, norm, seed);
    return draw_by(&params, d, false);
}

static double dot(const float *a, const float *b, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += (double)a[c] * b[c];
    return sum;
}

/* The directions are orthogonal in double precision and then rounded to float32, each entry by
 * 2^-24 of itself: a product of two is off by at most 2 * 2^-24 of |a| |b|. Every reflection leaves
 * a few 2^-53, of which d together are nothing beside it. */
static void check_orthogonal(int64_t features, int64_t d, attn_norm norm)
{
    float *omega = draw(features, d, true, norm, 5);
    for (int64_t i = 0; i < features; i++)
        for (int64_t j = i / d * d; j < i; j++) {
            const float *a = omega + i * d, *b = omega + j * d;
            double cosine = dot(a, b, d) / sqrt(dot(a, a, d) * dot(b, b, d));
            CHECK(fabs(cosine) <= 0x1p-23, "features %d d %d norm %d: %d and %d have cosine %g",
                  (int)features, (int)d, (int)norm, (int)i, (int)j, cosine);
        }
    for (int64_t i = 0; i < features * d; i++)
        CHECK(isfinite(omega[i]), "features %d d %d: entry %d is %g", (int)features, (int)d, (int)i,
              omega[i]);
    free(omega);
}

/* Whole blocks, and a last one that is cut. */
static void test_orthogonal_in_blocks(void)
{
    static const int64_t sizes[][2] = {{1, 1},     {7, 1},      {1, 8},     {8, 8},
                                       {20, 8},    {64, 64},    {100, 64},  {256, 64},
                                       {130, 128}, {3, 200},    {257, 257}, {300, 300},
                                       {700, 300}, {200, 1030}, {33, 2048}, {2, 20000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_orthogonal(sizes[i][0], sizes[i][1], ATTN_NORM_CHI);
        check_orthogonal(sizes[i][0], sizes[i][1], ATTN_NORM_SQRT);
    }
}

/* All 2048 of 2048, of which looking at each pair would take minutes: what all their squares in a
 * column add up to, and some pairs. A column of an orthogonal matrix is of length 1 too; its 2048
 * entries are rounded by 2^-24 of themselves. */
static void test_large_block(void)
{
    enum {
        D = 2048
    };
    float *omega = draw(D, D, true, ATTN_NORM_SQRT, 5);
    for (int64_t c = 0; c < D; c++) {
        double sum = 0;
        for (int64_t i = 0; i < D; i++)
            sum += (double)omega[i * D + c] * omega[i * D + c] / D;
        CHECK(fabs(sum - 1) <= 0x1p-22, "column %d of %d has squares of sum %.9g", (int)c, D, sum);
    }
    for (int64_t i = 1; i < D; i += 13)
        for (int64_t j = i % 17; j < i; j += 17) {
            double cosine = dot(omega + i * D, omega + j * D, D) / D;
            CHECK(fabs(cosine) <= 0x1p-23, "%d and %d of %d have cosine %g", (int)i, (int)j, D,
                  cosine);
        }
    free(omega);
}

/* y = H_k x as the formula has it, in columns of a whole row: t is Gaussian row k from k on. */
static void reflect(double *x, const double *g, int64_t k, int64_t d)
{
    double v[16] = {0}, tail = 0, square = 0, product = 0;
    for (int64_t c = k; c < d; c++)
        tail += g[c] * g[c];
    for (int64_t c = k; c < d; c++)
        v[c] = g[c] + (c == k ? copysign(sqrt(tail), g[k]) : 0);
    for (int64_t c = 0; c < d; c++) {
        square += v[c] * v[c];
        product += v[c] * x[c];
    }
    for (int64_t c = 0; c < d; c++)
        x[c] -= 2 * v[c] * product / square;
}

/* The formula at the head of directions.c, word by word; 1e-6 of the length is 16 roundings to
 * float32: that of the result, those of the drawn numbers, and their share in every reflection. */
static void check_formula(int64_t features, int64_t d, attn_norm norm)
{
    float *omega = draw(features, d, true, norm, 12), *drawn = draw(features, d, false, norm, 12);
    for (int64_t i = 0; i < features; i++) {
        int64_t index = i % d, block = i - index;
        double x[16] = {0}, tail = 0, whole = 0;
        for (int64_t c = 0; c < d; c++) {
            double g = drawn[i * d + c];
            whole += g * g;
            tail += c < index ? 0 : g * g;
            x[c] = c < index ? 0 : g;
        }
        for (int64_t k = index - 1; k >= 0; k--) {
            double g[16];
            for (int64_t c = 0; c < d; c++)
                g[c] = drawn[(block + k) * d + c];
            reflect(x, g, k, d);
        }
        double length = norm == ATTN_NORM_CHI ? sqrt(whole) : sqrt((double)d);
        for (int64_t c = 0; c < d; c++)
            CHECK(fabs(omega[i * d + c] - length * x[c] / sqrt(tail)) <= 1e-6 * length,
                  "features %d d %d norm %d: entry %d of direction %d is %.9g, expected %.9g",
                  (int)features, (int)d, (int)norm, (int)c, (int)i, omega[i * d + c],
                  length * x[c] / sqrt(tail));
    }
    free(omega);
    free(drawn);
}

static void test_formula(void)
{
    for (int64_t d = 1; d <= 16; d += 3)
        for (int64_t features = 1; features <= 40; features += 13) {
            check_formula(features, d, ATTN_NORM_CHI);
            check_formula(features, d, ATTN_NORM_SQRT);
        }
}

/* Entries are rounded by 2^-24 of themselves, and so is the length at most. */
static void test_sqrt_lengths(void)
{
    static const int64_t sizes[] = {1, 17, 33, 49, 65, 257, 1030, 2048};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t d = sizes[s];
        float *omega = draw(100, d, true, ATTN_NORM_SQRT, 6);
        for (int64_t i = 0; i < 100; i++) {
            double length = sqrt(dot(omega + i * d, omega + i * d, d)), root = sqrt((double)d);
            CHECK(fabs(length - root) <= root * 0x1p-23, "d %d: direction %d is %.9g long", (int)d,
                  (int)i, length);
        }
        free(omega);
    }
}

/* Squares of lengths are chi-squared with d degrees: mean d, variance 2 d, third central moment
 * 8 d. Of COUNT of them the mean deviates by sqrt(2 d / COUNT); their variance has variance
 * (12 d^2 + 48 d - 4 d^2) / COUNT = (8 d^2 + 48 d) / COUNT; 5 deviations are allowed. */
static void check_squares(const float *omega, int count, int64_t d, const char *what)
{
    double sum = 0, square = 0, degrees = (double)d;
    for (int i = 0; i < count; i++) {
        double x = dot(omega + i * d, omega + i * d, d) - degrees;
        sum += x;
        square += x * x;
    }
    CHECK(fabs(sum / count) < 5 * sqrt(2 * degrees / count), "%s d %d: mean of squares off by %g",
          what, (int)d, sum / count);
    CHECK(fabs(square / count - 2 * degrees) <
              5 * sqrt((8 * degrees * degrees + 48 * degrees) / count),
          "%s d %d: variance of squares %g, expected %g", what, (int)d, square / count,
          2 * degrees);
}

static void test_chi_lengths(void)
{
    enum {
        COUNT = 20000
    };
    static const int64_t sizes[] = {1, 2, 3, 8, 64};
    for (int i = 0; i < 5; i++) {
        float *chi = draw(COUNT, sizes[i], true, ATTN_NORM_CHI, 7);
        float *loose = draw(COUNT, sizes[i], false, ATTN_NORM_CHI, 7);
        check_squares(chi, COUNT, sizes[i], "chi");
        check_squares(loose, COUNT, sizes[i], "independent");
        free(chi);
        free(loose);
    }
}

/* Every entry has mean 0 and variance 1, in each position of a block alike: 5 deviations of a mean
 * of COUNT (entries of different blocks are independent). */
static void check_entries(bool orthogonal)
{
    enum {
        COUNT = 20000,
        D = 4
    };
    float *omega = draw((int64_t)COUNT * D, D, orthogonal, ATTN_NORM_CHI, 8);
    for (int at = 0; at < D * D; at++) {
        double sum = 0, square = 0, next = 0;
        for (int i = 0; i < COUNT; i++) {
            double x = omega[i * D * D + at];
            sum += x;
            square += x * x;
            next += i ? x * omega[(i - 1) * D * D + at] : 0;
        }
        CHECK(fabs(sum / COUNT) < 5 / sqrt(COUNT), "entry %d has mean %g", at, sum / COUNT);
        CHECK(fabs(square / COUNT - 1) < 5 * sqrt(2.0 / COUNT), "entry %d has variance %g", at,
              square / COUNT);
        CHECK(fabs(next / COUNT) < 5 / sqrt(COUNT), "entry %d: blocks are correlated by %g", at,
              next / COUNT);
    }
    free(omega);
}

static void test_entries(void)
{
    check_entries(true);
    check_entries(false);
}

/* Independent directions are the drawn normals as they come, by position, and not orthogonal. */
static void test_independent(void)
{
    enum {
        D = 8
    };
    float *omega = draw(20, D, false, ATTN_NORM_CHI, 9);
    double largest = 0;
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < i; j++)
            largest = fmax(largest, fabs(dot(omega + i * D, omega + j * D, D)));
    for (int i = 0; i < 20 * D; i++)
        CHECK(omega[i] == (float)attn_random_normal(9, 2, (uint64_t)i), "entry %d is %.9g", i,
              omega[i]);
    CHECK(largest > 1, "no two of 20 independent directions are far from orthogonal: %g", largest);
    free(omega);
}

/* A longer draw begins with the shorter one, tiles may run in any order, and the seed, the kind and
 * the norm each make a difference. */
static void check_prefix_and_order(int64_t most, int64_t d)
{
    const attn_mix_params params = params_of(most, true, ATTN_NORM_CHI, 10);
    size_t bytes = (size_t)(most * d) * sizeof(float);
    float *all = draw_by(&params, d, false), *backward = draw_by(&params, d, true);
    CHECK(memcmp(backward, all, bytes) == 0, "d %d: the order of tiles changes bits", (int)d);
    free(backward);
    for (int64_t features = 1; features < most; features += 1 + most / 7) {
        float *part = draw(features, d, true, ATTN_NORM_CHI, 10);
        CHECK(memcmp(part, all, (size_t)(features * d) * sizeof *part) == 0,
              "d %d: %d directions are not the first of %d", (int)d, (int)features, (int)most);
        free(part);
    }
    float *others[] = {draw(most, d, true, ATTN_NORM_CHI, 11),
                       draw(most, d, true, ATTN_NORM_SQRT, 10),
                       draw(most, d, false, ATTN_NORM_CHI, 10)};
    for (int i = 0; i < 3; i++) {
        CHECK(memcmp(others[i], all, bytes) != 0, "d %d: draw %d is the same", (int)d, i);
        free(others[i]);
    }
    free(all);
}

static void test_prefix_and_order(void)
{
    check_prefix_and_order(43, 8);
    check_prefix_and_order(600, 257);
    check_prefix_and_order(300, 1030);
}

/* Tiles are short whatever the sizes: up to d = 16384 each is predicted to cost 20 ms at most. */
static void test_short_tiles(void)
{
    for (int64_t d = 1; d <= 16384; d *= 2)
        for (int64_t features = 1; features <= 16384; features *= 2)
            for (int kind = 0; kind < 2; kind++) {
                const attn_mix_params params = params_of(features, kind != 0, ATTN_NORM_CHI, 1);
                const attn_rates rates = attn_rates_default();
                int phases = attn_directions_phases(&params, d);
                CHECK(phases >= 1 && phases <= ATTN_DIRECTION_PHASES, "%d phases", phases);
                for (int p = 0; p < phases; p++) {
                    attn_phase phase = attn_directions_phase(&params, d, p, &rates);
                    CHECK(phase.tiles >= 1 && phase.tile_ns > 0 && phase.tile_ns <= 20e6,
                          "d %d features %d: %s has %lld tiles of %g ns", (int)d, (int)features,
                          phase.name, (long long)phase.tiles, phase.tile_ns);
                }
            }
}

int main(void)
{
    static const test_case cases[] = {
        {"orthogonal in blocks", test_orthogonal_in_blocks},
        {"large block", test_large_block},
        {"formula", test_formula},
        {"sqrt lengths", test_sqrt_lengths},
        {"chi lengths", test_chi_lengths},
        {"entries", test_entries},
        {"independent", test_independent},
        {"prefix and order", test_prefix_and_order},
        {"short tiles", test_short_tiles},
        {NULL, NULL},
    };
    return test_main("directions", cases);
}
