/* Activation functions and widening for AVX2, FMA and F16C. */
#include "kernels/vec_avx2.h"

#include "kernels/elementwise_tile.h"

const attn_elementwise_kernels attn_elementwise_avx2 = {
    .gelu = gelu,
    .silu = silu,
    .widen = widen,
};
