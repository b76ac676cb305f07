/* Activation functions and widening for AVX-512 F. */
#include "kernels/vec_avx512.h"

#include "kernels/elementwise_tile.h"

const attn_elementwise_kernels attn_elementwise_avx512 = {
    .gelu = gelu,
    .silu = silu,
    .widen = widen,
};
