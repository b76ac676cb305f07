/* Performer's running sums for AVX-512 F. */
#include "kernels/vec_avx512.h"

#include "kernels/features_tile.h"

const attn_feature_kernels attn_features_avx512 = {
    .absorb = absorb,
    .decay = decay,
    .add_key = add_key,
    .weigh = weigh,
    .read = read_sums,
};
