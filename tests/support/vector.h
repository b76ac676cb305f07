/* A reference vector of tests/vectors: inputs, masks and the float64 answer. */
#ifndef TESTS_VECTOR_H
#define TESTS_VECTOR_H

#include "attn/plan.h"
#include "tests/support/attend.h"

typedef struct test_vector {
    char mixer[16];
    attn_mix_params params; /* the defaults, and what the file says; scale and mask stand below */
    double tolerance;       /* absolute, of a float32 answer; 0: follows from the tensors */
    float *e, *f, *omega;   /* params' tensors, or NULL */
    attn_shape shape;
    float scale;
    attn_mask mask; /* of which the arrays are the vector's own */
    attend_arrays arrays;
    int64_t *lengths;
    uint8_t *key_mask;
    double *expected; /* as many as arrays.out_count */
} test_vector;

/* Read the file; false when it is not as tests/vectors/README.md says. Close it in either case. */
bool test_vector_open(const char *path, test_vector *vector);
void test_vector_close(test_vector *vector);

#endif
