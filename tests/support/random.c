#include "tests/support/random.h"

#include <math.h>

uint64_t random_bits(test_random *random)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int random_int(test_random *random, int from, int to)
{
    uint64_t choices = (uint64_t)((int64_t)to - from + 1);
    return (int)(from + (int64_t)(random_bits(random) % choices));
}

/* In (0, 1]: never 0, which has no logarithm. */
static double unit(test_random *random)
{
    return ((double)(random_bits(random) >> 11) + 1) * 0x1p-53;
}

float random_normal(test_random *random)
{
    double radius = sqrt(-2 * log(unit(random)));
    return (float)(radius * cos(2 * M_PI * unit(random)));
}

void random_fill(test_random *random, float *values, size_t count, float gain)
{
    for (size_t i = 0; i < count; i++)
        values[i] = gain * random_normal(random);
}
