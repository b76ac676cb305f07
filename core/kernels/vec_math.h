/* Functions in the vector vocabulary; include a vec_<isa>.h first. */
#ifndef ATTN_VEC_MATH_H
#define ATTN_VEC_MATH_H

#include <math.h>

/* 2^x for x <= 0 (relative error 1.3e-7), NaN for NaN, exactly 1 for 0, exactly 0 for x <= -127.
 *
 * x is n eighths and a rest f. A table of 2^(i/8) leaves a polynomial of degree 3, whose additions
 * and multiplications are what the units that multiply have to spare least. */
VF_INLINE vf vf_exp2(vf x)
{
    /* 2^(i/8) with i eighths of an exponent taken off the bits: adding n of them puts them back. */
    static const float eighths[8] = {
        0x1p+0F,        0x1.f72b84p-1F, 0x1.f06fe0p-1F, 0x1.ebfdaep-1F,
        0x1.ea09e6p-1F, 0x1.eace54p-1F, 0x1.ee89fap-1F, 0x1.f5818ep-1F,
    };
    /* Adding 1.5 * 2^20 rounds to eighths and leaves their number in the low bits. */
    const vf shifter = vf_set(1572864.0F);
    /* Operands in this order let a NaN through. At -127 the bits come out as 0: a hidden key's
     * score of -infinity gives exactly 0 without a compare. */
    x = vf_max(vf_set(-127.0F), x);
    vf shifted = vf_add(x, shifter);
    vf f = vf_sub(x, vf_sub(shifted, shifter));
    vf scale = vf_add_eighths(vf_lookup(eighths, shifted), shifted);
    /* Our own minimax fit of 2^f - 1 on [-1/16, 1/16], with ln 2 held. */
    vf p = vf_fma(vf_set(0.0555042662F), f, vf_set(0.240257502F));
    p = vf_fma(p, f, vf_set(0.693147182F));
    return vf_fma(vf_mul(p, f), scale, scale);
}

/* e^-|x| */
VF_INLINE vf vf_exp_minus_abs(vf x)
{
    const vf log2_e = vf_set(1.44269504F);
    return vf_exp2(vf_mul(vf_min(vf_sub(vf_set(0), x), x), log2_e));
}

/* x / (1 + e^-x) */
VF_INLINE vf vf_silu(vf x)
{
    vf e = vf_exp_minus_abs(x), one = vf_set(1);
    vf above = vf_select(vf_between(x, vf_set(0), vf_set(INFINITY)), one, e);
    return vf_div(vf_mul(x, above), vf_add(one, e));
}

/* x Phi(x), Phi being the normal distribution's. The tail Phi(-|x|) is e^(-x^2/2) times a function
 * that falls slowly, so that it keeps its digits where it is small. */
VF_INLINE vf vf_gelu(vf x)
{
    const vf half_log2_e = vf_set(0.721347520F), one = vf_set(1);
    vf most = vf_set(16); /* where the tail is 0; an infinity times that would be NaN */
    vf a = vf_min(vf_max(x, vf_sub(vf_set(0), x)), most);
    vf t = vf_div(one, vf_fma(vf_set(0.35F), a, one));
    /* Our own minimax fit of e^(x^2/2) Phi(-x), relative error 6e-8. */
    vf p = vf_fma(vf_set(-0.029145861F), t, vf_set(0.143971398F));
    p = vf_fma(p, t, vf_set(-0.255713701F));
    p = vf_fma(p, t, vf_set(0.159173608F));
    p = vf_fma(p, t, vf_set(-0.0231094975F));
    p = vf_fma(p, t, vf_set(0.10550788F));
    p = vf_fma(p, t, vf_set(0.119832896F));
    p = vf_fma(p, t, vf_set(0.139861867F));
    p = vf_fma(p, t, vf_set(0.139621407F));
    vf decay = vf_exp2(vf_mul(vf_mul(a, a), vf_sub(vf_set(0), half_log2_e)));
    vf tail = vf_mul(vf_mul(p, t), decay);
    /* Operands in this order let a NaN through. */
    return vf_sub(vf_max(vf_set(0), x), vf_mul(a, tail));
}

/* log(1 + e^x), which is x itself as soon as e^-x is below the rounding of x. */
VF_INLINE vf vf_softplus(vf x)
{
    /* log(1 + e) = 2 atanh(z); of atanh our own minimax fit for |z| <= 1/3, relative error 5e-9. */
    vf e = vf_exp_minus_abs(x);
    vf z = vf_div(e, vf_add(e, vf_set(2))), w = vf_mul(z, z);
    vf p = vf_fma(vf_set(0.140059963F), w, vf_set(0.140009016F));
    p = vf_fma(p, w, vf_set(0.200107634F));
    p = vf_fma(p, w, vf_set(0.333332092F));
    p = vf_fma(p, w, vf_set(1));
    /* Operands in this order let a NaN through. */
    return vf_fma(vf_add(z, z), p, vf_max(vf_set(0), x));
}

#endif
