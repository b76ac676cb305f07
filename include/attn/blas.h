/* The door to OpenBLAS. Its own threads stay off: parallelism is the executor's, and a row's last
 * bits would otherwise depend on how the library split the matrix. */
#ifndef ATTN_BLAS_H
#define ATTN_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hold the library to one thread a call. Once, before the first worker starts. */
void attn_blas_init(void);

/* Make the calling thread take its buffer now: the library hangs or aborts when that fails later.
 */
void attn_blas_warm(void);

/* Version and kernel in use, e.g. "OpenBLAS 0.3.21 Haswell". Static storage. */
const char *attn_blas_name(void);

/* c (rows, columns) = alpha a (rows, depth) b (depth, columns) + beta c. Rows of each array lie
 * `*_stride` floats apart; a transposed operand is stored the other way round. With beta 0, c may
 * hold anything beforehand. */
typedef struct attn_gemm {
    int64_t rows, columns, depth;
    const float *a, *b;
    float *c;
    ptrdiff_t a_stride, b_stride, c_stride;
    bool a_transposed, b_transposed;
    float alpha, beta;
} attn_gemm;

void attn_blas_gemm(const attn_gemm *gemm);

/* The plain case: c = a b, all dense. */
void attn_blas_sgemm(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b,
                     float *c);

#endif
