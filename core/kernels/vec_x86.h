/* What the vocabularies of both x86 ISAs share. */
#ifndef ATTN_VEC_X86_H
#define ATTN_VEC_X86_H

#include <immintrin.h>

#define VF_INLINE static inline __attribute__((always_inline))

/* From here on this thread takes denormal numbers for 0, which may otherwise cost a hundred cycles
 * each. Returns the mode to restore. */
VF_INLINE unsigned vf_flush_denormals(void)
{
    const unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | flush_to_zero | denormals_are_zero);
    return before;
}

VF_INLINE void vf_restore_mode(unsigned before)
{
    _mm_setcsr(before);
}

#endif
