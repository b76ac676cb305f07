/* Performer's running sums for AVX2 and FMA. */
#include "kernels/vec_avx2.h"

#include "kernels/features_tile.h"

const attn_feature_kernels attn_features_avx2 = {
    .absorb = absorb,
    .decay = decay,
    .add_key = add_key,
    .weigh = weigh,
    .read = read_sums,
};
