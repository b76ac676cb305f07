/* Fused attention for AVX-512 F. */
#include "kernels/vec_avx512.h"

#include "kernels/attention_tile.h"
#include "kernels/shorten_tile.h"

const attn_kernels attn_kernels_avx512 = {
    .isa = ATTN_ISA_AVX512,
    .tile_flops = 52e6,
    .panel_rows = PANEL,
    .lane_rows = VF_LANES,
    .key_group = VF_ROWS,
    .attend_bytes = attend_bytes,
    .attend = attend,
    .shorten_bytes = shorten_bytes,
    .shorten = shorten,
    .features = &attn_features_avx512,
    .scan = &attn_scan_avx512,
    .elementwise = &attn_elementwise_avx512,
};
