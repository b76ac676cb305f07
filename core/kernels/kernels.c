/* Which kernel tables this CPU can run. */
#include "kernels/kernels.h"

#ifdef __x86_64__
#include <cpuid.h>

/* clang 14's __builtin_cpu_supports does not know this one. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

const attn_kernels *attn_kernels_find(attn_isa isa)
{
    switch (isa) {
    case ATTN_ISA_SCALAR:
        return &attn_kernels_scalar;
#ifdef __x86_64__
    case ATTN_ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()
                   ? &attn_kernels_avx2
                   : NULL;
    case ATTN_ISA_AVX512:
        return __builtin_cpu_supports("avx512f") ? &attn_kernels_avx512 : NULL;
#else
    case ATTN_ISA_AVX2:
    case ATTN_ISA_AVX512:
        return NULL;
#endif
    case ATTN_ISA_COUNT:
        break;
    }
    return NULL;
}
