/* Functions in the vector vocabulary; include a vec_<isa>.h first. */
#ifndef ATTN_VEC_MATH_H
#define ATTN_VEC_MATH_H

/* 2^x for x <= 0 (relative error 1.7e-7), NaN for NaN, exactly 1 for 0, exactly 0 for x <= -127. */
VF_INLINE vf vf_exp2(vf x)
{
    /* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
    const vf shifter = vf_set(12582912.0F);
    /* Operands in this order let a NaN through. At -127 the exponent field comes out as 0: a hidden
     * key's score of -infinity gives exactly 0 without a compare. */
    x = vf_max(vf_set(-127.0F), x);
    vf shifted = vf_add(x, shifter);
    vf f = vf_sub(x, vf_sub(shifted, shifter));
    /* Our own minimax fit of 2^f on [-1/2, 1/2] in relative error, with the constant held at 1. */
    vf p = vf_fma(vf_set(0.00132647285F), f, vf_set(0.00967151392F));
    p = vf_fma(p, f, vf_set(0.0555073358F));
    p = vf_fma(p, f, vf_set(0.240222424F));
    p = vf_fma(p, f, vf_set(0.693147004F));
    p = vf_fma(p, f, vf_set(1.0F));
    return vf_add_exponent(p, shifted);
}

#endif
