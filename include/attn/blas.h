/* The door to OpenBLAS. Its own threads stay off: parallelism is the executor's, and a row's last
 * bits would otherwise depend on how the library split the matrix. */
#ifndef ATTN_BLAS_H
#define ATTN_BLAS_H

#include <stdint.h>

/* Hold the library to one thread a call. Once, before the first worker starts. */
void attn_blas_init(void);

/* Make the calling thread take its buffer now: the library hangs or aborts when that fails later.
 */
void attn_blas_warm(void);

/* Version and kernel in use, e.g. "OpenBLAS 0.3.21 Haswell". Static storage. */
const char *attn_blas_name(void);

/* c (rows, columns) = a (rows, depth) . b (depth, columns), dense row-major. */
void attn_blas_sgemm(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b,
                     float *c);

#endif
