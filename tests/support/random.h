/* Numbers for tests: the same on every machine and in every run, from a seed that a failing check
 * can print. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_random {
    uint64_t state; /* any seed, 0 included */
} test_random;

/* 64 random bits: splitmix64 (Steele, Lea and Flood 2014). */
uint64_t random_bits(test_random *random);

/* An integer in [from, to]. */
int random_int(test_random *random, int from, int to);

/* Standard normal, by the transform of Box and Muller (1958). */
float random_normal(test_random *random);

/* Fill `count` floats with normals of standard deviation `gain`. */
void random_fill(test_random *random, float *values, size_t count, float gain);

#endif
