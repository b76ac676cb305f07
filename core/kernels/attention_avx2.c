/* Fused attention for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/attention_tile.h"
#include "kernels/shorten_tile.h"

const attn_kernels attn_kernels_avx2 = {
    .isa = ATTN_ISA_AVX2,
    .tile_flops = 26e6,
    .panel_rows = PANEL,
    .lane_rows = VF_LANES,
    .key_group = VF_ROWS,
    .attend_bytes = attend_bytes,
    .attend = attend,
    .shorten_bytes = shorten_bytes,
    .shorten = shorten,
    .features = &attn_features_avx2,
    .scan = &attn_scan_avx2,
    .elementwise = &attn_elementwise_avx2,
};
