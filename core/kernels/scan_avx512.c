/* Mamba's convolution and scan for AVX-512 F. */
#include "kernels/vec_avx512.h"

#include "kernels/scan_tile.h"

const attn_scan_kernels attn_scan_avx512 = {
    .convolve = convolve,
    .scan = scan,
    .exponentials = exponentials,
};
