/* The vocabulary that the *_tile.h are written in, for AVX2 and FMA: 8 lanes, 16 registers. */
#ifndef ATTN_VEC_AVX2_H
#define ATTN_VEC_AVX2_H

#include "kernels/vec_x86.h"

typedef __m256 vf;    /* floats */
typedef __m256 vmask; /* all bits of a lane set, or none */

enum {
    VF_LANES = 8,
    VF_ROWS = 4, /* 4 x 3 accumulators, 3 panel vectors and a broadcast fill the 16 registers */
};

VF_INLINE vf vf_load(const float *from)
{
    return _mm256_load_ps(from);
}

VF_INLINE vf vf_load_unaligned(const float *from)
{
    return _mm256_loadu_ps(from);
}

/* VF_LANES numbers of 16 bits, aligned to nothing. */
VF_INLINE vf vf_load_bf16(const void *from)
{
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

VF_INLINE vf vf_load_fp16(const void *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(from));
}

VF_INLINE void vf_store(float *to, vf x)
{
    _mm256_store_ps(to, x);
}

VF_INLINE void vf_store_unaligned(float *to, vf x)
{
    _mm256_storeu_ps(to, x);
}

VF_INLINE vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}

VF_INLINE vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

VF_INLINE vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

VF_INLINE vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

VF_INLINE vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

/* a * b + c */
VF_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* The larger; `b` where either is NaN. */
VF_INLINE vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

/* The smaller; `b` where either is NaN. */
VF_INLINE vf vf_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

/* 0, 1, 2, ... */
VF_INLINE vf vf_lane_numbers(void)
{
    return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
}

/* table[n mod 8], where `n_bits` holds the integer n in the low bits of each lane. */
VF_INLINE vf vf_lookup(const float table[8], vf n_bits)
{
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), _mm256_castps_si256(n_bits));
}

/* The bits of x plus n eighths of an exponent; knows nothing of overflow. */
VF_INLINE vf vf_add_eighths(vf x, vf n_bits)
{
    __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(n_bits), 20);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), shifted));
}

VF_INLINE vmask vf_between(vf x, vf low, vf high)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, low, _CMP_GE_OQ), _mm256_cmp_ps(x, high, _CMP_LE_OQ));
}

VF_INLINE vf vf_select(vmask mask, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, mask);
}

/* The first `count` lanes. */
VF_INLINE vmask vf_first(int count)
{
    return _mm256_cmp_ps(vf_lane_numbers(), vf_set((float)count), _CMP_LT_OQ);
}

/* Lanes outside the mask are not read and become 0. */
VF_INLINE vf vf_load_masked(const float *from, vmask mask)
{
    return _mm256_maskload_ps(from, _mm256_castps_si256(mask));
}

VF_INLINE void vf_store_masked(float *to, vf x, vmask mask)
{
    _mm256_maskstore_ps(to, _mm256_castps_si256(mask), x);
}

/* r[i] lane j becomes r[j] lane i. */
VF_INLINE void vf_transpose(vf r[VF_LANES])
{
    vf pair[8], quad[8];
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        quad[i + 0] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

#endif
