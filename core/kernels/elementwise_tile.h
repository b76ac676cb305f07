/* Activation functions and the widening of 16-bit floats, written once for every vector ISA. An
 * overlay includes its vec_<isa>.h and then this file. */
#ifndef ATTN_ELEMENTWISE_TILE_H
#define ATTN_ELEMENTWISE_TILE_H

#include "kernels/kernels.h"
#include "kernels/vec_math.h"

/* Not to be inlined: their arithmetic has to stay between the two changes of mode. */
#define EACH(name)                                                                \
    static __attribute__((noinline)) void name##_all(float *x, ptrdiff_t count)   \
    {                                                                             \
        ptrdiff_t i = 0;                                                          \
        for (; i + VF_LANES <= count; i += VF_LANES)                              \
            vf_store_unaligned(x + i, vf_##name(vf_load_unaligned(x + i)));       \
        const vmask rest = vf_first((int)(count - i));                            \
        if (i < count)                                                            \
            vf_store_masked(x + i, vf_##name(vf_load_masked(x + i, rest)), rest); \
    }                                                                             \
                                                                                  \
    static void name(float *x, ptrdiff_t count)                                   \
    {                                                                             \
        const unsigned mode = vf_flush_denormals();                               \
        name##_all(x, count);                                                     \
        vf_restore_mode(mode);                                                    \
    }

EACH(gelu)
EACH(silu)

#undef EACH

static void widen(attn_dtype dtype, const void *from, size_t count, float *to)
{
    const char *bytes = from;
    const size_t element = attn_dtype_bytes(dtype);
    size_t i = 0;
    if (dtype == ATTN_BF16)
        for (; i + VF_LANES <= count; i += VF_LANES)
            vf_store_unaligned(to + i, vf_load_bf16(bytes + i * element));
    else if (dtype == ATTN_FP16)
        for (; i + VF_LANES <= count; i += VF_LANES)
            vf_store_unaligned(to + i, vf_load_fp16(bytes + i * element));
    attn_dtype_to_float(dtype, bytes + i * element, count - i, to + i);
}

#endif
