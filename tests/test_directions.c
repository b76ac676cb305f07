/* Performer's directions: orthogonal within a block, of the lengths they should have, independent
 * of each other across blocks, and drawn block by block whatever the order. */
#include "mixers/directions.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All directions; free() it. */
static float *draw(int64_t features, int64_t d, bool orthogonal, attn_norm norm, uint64_t seed)
{
    const attn_mix_params params = {
        .features = features, .orthogonal = orthogonal, .norm = norm, .seed = seed};
    float *omega = malloc((size_t)(features * d) * sizeof *omega);
    double *basis = malloc((size_t)(d * d) * sizeof *basis);
    memset(omega, 0xFF, (size_t)(features * d) * sizeof *omega);
    for (int64_t first = 0; first < features; first += d)
        attn_directions_draw(&params, d, first, basis, omega);
    free(basis);
    return omega;
}

static double dot(const float *a, const float *b, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += (double)a[c] * b[c];
    return sum;
}

/* The directions are orthogonal in double precision and then rounded to float32, each entry by
 * 2^-24 of itself: a product of two is off by at most 2 * 2^-24 of |a| |b|. Gram-Schmidt run twice
 * leaves d 2^-52 or so, which is nothing beside it. */
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
    static const int64_t sizes[][2] = {{1, 1},   {7, 1},    {1, 8},    {8, 8},     {20, 8},
                                       {64, 64}, {100, 64}, {256, 64}, {130, 128}, {3, 200}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_orthogonal(sizes[i][0], sizes[i][1], ATTN_NORM_CHI);
        check_orthogonal(sizes[i][0], sizes[i][1], ATTN_NORM_SQRT);
    }
}

/* Entries are rounded by 2^-24 of themselves, and so is the length at most. */
static void test_sqrt_lengths(void)
{
    for (int64_t d = 1; d <= 65; d += 16) {
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

/* Independent directions are the drawn normals as they come, and not orthogonal. */
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
    CHECK(largest > 1, "no two of 20 independent directions are far from orthogonal: %g", largest);
    free(omega);
}

/* A longer draw begins with the shorter one, blocks may be drawn in any order, and the seed, the
 * kind and the norm each make a difference. */
static void test_prefix_and_order(void)
{
    enum {
        D = 8,
        FEATURES = 43
    };
    float *all = draw(FEATURES, D, true, ATTN_NORM_CHI, 10);
    for (int features = 1; features < FEATURES; features += 6) {
        float *part = draw(features, D, true, ATTN_NORM_CHI, 10);
        CHECK(memcmp(part, all, (size_t)features * D * sizeof *part) == 0,
              "%d directions are not the first of %d", features, FEATURES);
        free(part);
    }
    const attn_mix_params params = {.features = FEATURES, .orthogonal = true, .seed = 10};
    float backward[FEATURES * D];
    double basis[D * D];
    for (int64_t first = (FEATURES - 1) / D * D; first >= 0; first -= D)
        attn_directions_draw(&params, D, first, basis, backward);
    CHECK(memcmp(backward, all, sizeof backward) == 0, "the order of blocks changes bits");
    float *others[] = {draw(FEATURES, D, true, ATTN_NORM_CHI, 11),
                       draw(FEATURES, D, true, ATTN_NORM_SQRT, 10),
                       draw(FEATURES, D, false, ATTN_NORM_CHI, 10)};
    for (int i = 0; i < 3; i++) {
        CHECK(memcmp(others[i], all, sizeof backward) != 0, "draw %d is the same", i);
        free(others[i]);
    }
    free(all);
}

int main(void)
{
    static const test_case cases[] = {
        {"orthogonal in blocks", test_orthogonal_in_blocks},
        {"sqrt lengths", test_sqrt_lengths},
        {"chi lengths", test_chi_lengths},
        {"entries", test_entries},
        {"independent", test_independent},
        {"prefix and order", test_prefix_and_order},
        {NULL, NULL},
    };
    return test_main("directions", cases);
}
