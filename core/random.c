/* A counter-based generator (a strong mix of the counter; Salmon et al. 2011 describe the idea),
 * and the Box-Muller transform with a logarithm and a cosine of our own. */
#include "random.h"

#include "plain_math.h"

#include <math.h>

/* The finaliser of SplitMix64 (Steele et al. 2014): every output bit depends on every input bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
}

uint64_t attn_random_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    const uint64_t golden = 0x9E3779B97F4A7C15U;
    uint64_t key = mix(mix(seed + golden) + (stream + 1) * golden);
    return mix(key + (index + 1) * golden);
}

/* cos(2 pi x) for 0 <= x < 1, by the Taylor series of half the angle. */
static double cosine_of_turn(double x)
{
    const double two_pi = 6.28318530717958647693;
    x = x > 0.5 ? 1 - x : x;
    double sign = x > 0.25 ? -1 : 1;
    x = x > 0.25 ? 0.5 - x : x;
    /* cos a = 2 cos^2(a / 2) - 1 keeps the series on a short angle. */
    double half = two_pi * x / 2, square = half * half, term = 1, sum = 1;
    for (int n = 1; n <= 10; n++) {
        term *= -square / ((2 * n - 1) * (2 * n));
        sum += term;
    }
    return sign * (2 * sum * sum - 1);
}

double attn_random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    const double unit = 0x1p-53;
    /* 1 to 2^53 over 2^53: never 0, whose logarithm is not a number. */
    double u = (double)((attn_random_bits(seed, 2 * stream, index) >> 11) + 1) * unit;
    double turn = (double)(attn_random_bits(seed, 2 * stream + 1, index) >> 11) * unit;
    return sqrt(-2 * attn_plain_log(u)) * cosine_of_turn(turn);
}
