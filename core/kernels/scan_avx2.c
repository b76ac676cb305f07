/* Mamba's convolution and scan for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/scan_tile.h"

const attn_scan_kernels attn_scan_avx2 = {
    .convolve = convolve,
    .scan = scan,
    .exponentials = exponentials,
};
