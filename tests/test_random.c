/* Drawn numbers: the same on every machine, by position, and normal. */
#include "random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stddef.h>

enum {
    MANY = 1000000
};

/* To the bit, for ever: a seed in someone's notes must keep its meaning. The values were checked
 * against SplitMix64's finaliser and Box-Muller in Python with libm's log and cos, to 1e-15. */
static void test_fixed_values(void)
{
    static const struct {
        uint64_t seed, stream, index;
        double value;
    } fixed[] = {
        {0U, 0U, 0U, 0x1.9af7375fa31aep-1},
        {0U, 1U, 0U, 0x1.a2aa1f4f5577dp-1},
        {0U, 1U, 1U, -0x1.67d682ac0c56ep-3},
        {0U, 1U, 2U, -0x1.c6d60cc9b87f4p-2},
        {0U, 2U, 0U, 0x1.e193cb26f04bap-3},
        {0U, 3U, 0U, -0x1.0cfa42502020fp-4},
        {1U, 1U, 0U, 0x1.ab005fc14ce32p-2},
        {7U, 2U, 12345U, 0x1.c21674969368bp-4},
        {42U, 1U, 4294967301U, -0x1.db69dad1d5c2dp-4},
        {9007199254740991U, 1U, 3U, -0x1.8e0ec7327174ep-1},
        {18446744073709551615U, 4611686018427387903U, 18446744073709551615U, 0x1.aa76bd526a181p-2},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        double value = attn_random_normal(fixed[i].seed, fixed[i].stream, fixed[i].index);
        CHECK(value == fixed[i].value, "seed %llu stream %llu index %llu: %a, expected %a",
              (unsigned long long)fixed[i].seed, (unsigned long long)fixed[i].stream,
              (unsigned long long)fixed[i].index, value, fixed[i].value);
    }
}

/* Moments of MANY standard normals: a mean of MANY terms of variance s^2 deviates by s / 1000, and
 * 5 of those are allowed. x^2 - 1 has variance 2, x^3 has 15, x^4 - 3 has 96. */
static void check_moments(uint64_t seed, uint64_t stream)
{
    const double expected[] = {0, 1, 0, 3}, variance[] = {1, 2, 15, 96};
    double sums[4] = {0};
    for (uint64_t i = 0; i < MANY; i++) {
        double x = attn_random_normal(seed, stream, i), power = x;
        for (int k = 0; k < 4; k++, power *= x)
            sums[k] += power;
    }
    for (int k = 0; k < 4; k++) {
        double off = fabs(sums[k] / MANY - expected[k]);
        CHECK(off < 5 * sqrt(variance[k] / MANY), "seed %llu stream %llu: moment %d off by %g",
              (unsigned long long)seed, (unsigned long long)stream, k + 1, off);
    }
}

static void test_moments(void)
{
    check_moments(0, 1);
    check_moments(0, 2);
    check_moments(1, 1);
    check_moments(UINT64_MAX, 3);
}

/* Shares of normals below a threshold, and the tails: none is lost, none is too far out. */
static void test_distribution(void)
{
    static const double thresholds[] = {-3, -2, -1, -0.5, 0, 0.1, 1, 2, 3};
    int below[9] = {0};
    double largest = 0;
    for (uint64_t i = 0; i < MANY; i++) {
        double x = attn_random_normal(7, 1, i);
        for (int t = 0; t < 9; t++)
            below[t] += x < thresholds[t];
        largest = fmax(largest, fabs(x));
    }
    for (int t = 0; t < 9; t++) {
        double share = 0.5 * erfc(-thresholds[t] / sqrt(2));
        CHECK(fabs((double)below[t] / MANY - share) < 5 * sqrt(share * (1 - share) / MANY),
              "%d of %d below %g, expected a share of %g", below[t], MANY, thresholds[t], share);
    }
    /* P(|x| > 4) MANY = 63; the most that 53 bits can give is sqrt(2 ln 2^53) = 8.57. */
    CHECK(largest > 4 && largest < 8.58, "the largest of %d is %g", MANY, largest);
}

/* The mean of products of MANY pairs deviates by 1 / 1000; 5 of those are allowed. */
static void check_unrelated(const char *what, uint64_t seed, uint64_t other_seed, uint64_t stream,
                            uint64_t other_stream, uint64_t lag)
{
    double sum = 0;
    for (uint64_t i = 0; i < MANY; i++)
        sum += attn_random_normal(seed, stream, i) *
               attn_random_normal(other_seed, other_stream, i + lag);
    CHECK(fabs(sum / MANY) < 5 / sqrt(MANY), "%s: correlation %g", what, sum / MANY);
}

static void test_independence(void)
{
    check_unrelated("neighbours", 0, 0, 1, 1, 1);
    check_unrelated("64 apart", 0, 0, 1, 1, 64);
    check_unrelated("rows 2^32 apart", 0, 0, 1, 1, (uint64_t)1 << 32);
    check_unrelated("streams", 0, 0, 1, 2, 0);
    check_unrelated("streams, shifted", 0, 0, 2, 3, 1);
    check_unrelated("seeds", 0, 1, 1, 1, 0);
    check_unrelated("seeds that differ in the highest bit", 0, (uint64_t)1 << 63, 1, 1, 0);
}

/* Element i depends on nothing but seed, stream and i: asked in any order, and again. */
static void test_by_position(void)
{
    double forward[100];
    for (uint64_t i = 0; i < 100; i++)
        forward[i] = attn_random_normal(5, 1, i);
    for (uint64_t i = 100; i-- > 0;)
        CHECK(attn_random_normal(5, 1, i) == forward[i], "element %llu changed",
              (unsigned long long)i);
}

int main(void)
{
    static const test_case cases[] = {
        {"fixed values", test_fixed_values}, {"moments", test_moments},
        {"distribution", test_distribution}, {"independence", test_independence},
        {"by position", test_by_position},   {NULL, NULL},
    };
    return test_main("random", cases);
}
