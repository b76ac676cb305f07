/* The vocabulary that the *_tile.h are written in, for AVX-512 F: 16 lanes, 32 registers. */
#ifndef ATTN_VEC_AVX512_H
#define ATTN_VEC_AVX512_H

#include "kernels/vec_x86.h"

typedef __m512 vf;       /* floats */
typedef __mmask16 vmask; /* a bit a lane */

enum {
    VF_LANES = 16,
    VF_ROWS = 8, /* 8 x 3 accumulators, 3 panel vectors and a broadcast: 28 of 32 registers */
};

VF_INLINE vf vf_load(const float *from)
{
    return _mm512_load_ps(from);
}

VF_INLINE vf vf_load_unaligned(const float *from)
{
    return _mm512_loadu_ps(from);
}

/* VF_LANES numbers of 16 bits, aligned to nothing. */
VF_INLINE vf vf_load_bf16(const void *from)
{
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

VF_INLINE vf vf_load_fp16(const void *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(from));
}

VF_INLINE void vf_store(float *to, vf x)
{
    _mm512_store_ps(to, x);
}

VF_INLINE void vf_store_unaligned(float *to, vf x)
{
    _mm512_storeu_ps(to, x);
}

VF_INLINE vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}

VF_INLINE vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

VF_INLINE vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

VF_INLINE vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

VF_INLINE vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c */
VF_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* The larger; `b` where either is NaN. */
VF_INLINE vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

/* The smaller; `b` where either is NaN. */
VF_INLINE vf vf_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

/* 0, 1, 2, ... */
VF_INLINE vf vf_lane_numbers(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* table[n mod 8], where `n_bits` holds the integer n in the low bits of each lane. */
VF_INLINE vf vf_lookup(const float table[8], vf n_bits)
{
    __m512d twice = _mm512_broadcast_f64x4(_mm256_castps_pd(_mm256_loadu_ps(table)));
    return _mm512_permutexvar_ps(_mm512_castps_si512(n_bits), _mm512_castpd_ps(twice));
}

/* The bits of x plus n eighths of an exponent; knows nothing of overflow. */
VF_INLINE vf vf_add_eighths(vf x, vf n_bits)
{
    __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(n_bits), 20);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), shifted));
}

VF_INLINE vmask vf_between(vf x, vf low, vf high)
{
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(x, low, _CMP_GE_OQ), x, high, _CMP_LE_OQ);
}

VF_INLINE vf vf_select(vmask mask, vf yes, vf no)
{
    return _mm512_mask_blend_ps(mask, no, yes);
}

/* The first `count` lanes. */
VF_INLINE vmask vf_first(int count)
{
    return (vmask)((1U << count) - 1);
}

/* Lanes outside the mask are not read and become 0. */
VF_INLINE vf vf_load_masked(const float *from, vmask mask)
{
    return _mm512_maskz_loadu_ps(mask, from);
}

VF_INLINE void vf_store_masked(float *to, vf x, vmask mask)
{
    _mm512_mask_storeu_ps(to, mask, x);
}

/* r[i] lane j becomes r[j] lane i. */
VF_INLINE void vf_transpose(vf r[VF_LANES])
{
    vf pair[16], quad[16];
    for (int i = 0; i < 16; i += 2) {
        pair[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        pair[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        quad[i + 0] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm512_shuffle_ps(pair[i], pair[i + 2], 0xEE);
        quad[i + 2] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm512_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
    }
    /* quad[4g + i] holds, in its 128-bit part p, column 4p + i of rows 4g to 4g + 3. */
    for (int i = 0; i < 4; i++) {
        vf low01 = _mm512_shuffle_f32x4(quad[i], quad[4 + i], 0x88);
        vf low23 = _mm512_shuffle_f32x4(quad[8 + i], quad[12 + i], 0x88);
        vf high01 = _mm512_shuffle_f32x4(quad[i], quad[4 + i], 0xDD);
        vf high23 = _mm512_shuffle_f32x4(quad[8 + i], quad[12 + i], 0xDD);
        r[i] = _mm512_shuffle_f32x4(low01, low23, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(low01, low23, 0xDD);
        r[i + 4] = _mm512_shuffle_f32x4(high01, high23, 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(high01, high23, 0xDD);
    }
}

#endif
