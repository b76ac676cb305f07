/* Numbers each by itself, the scalar truth: activation functions in double, widening bit by bit. */
#include "kernels/kernels.h"

#include <math.h>

static void gelu(float *x, ptrdiff_t count)
{
    const double sqrt_half = 0.70710678118654752440;
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = (float)(0.5 * x[i] * erfc(-x[i] * sqrt_half));
}

static void silu(float *x, ptrdiff_t count)
{
    for (ptrdiff_t i = 0; i < count; i++)
        x[i] = (float)(x[i] / (1 + exp(-(double)x[i])));
}

const attn_elementwise_kernels attn_elementwise_scalar = {
    .gelu = gelu,
    .silu = silu,
    .widen = attn_dtype_to_float,
};
