/* OpenBLAS, held to one thread a call. The only file that includes cblas.h. */
#include "attn/blas.h"

#include <cblas.h>

void attn_blas_init(void)
{
    openblas_set_num_threads(1);
}

void attn_blas_warm(void)
{
    /* Larger than the library's small-matrix path, which takes no buffer. */
    enum {
        SIDE = 128
    };
    static const float zeros[SIDE * SIDE];
    float c[SIDE * SIDE];
    attn_blas_sgemm(SIDE, SIDE, SIDE, zeros, zeros, c);
}

const char *attn_blas_name(void)
{
    return openblas_get_config();
}

void attn_blas_gemm(const attn_gemm *g)
{
    cblas_sgemm(CblasRowMajor, g->a_transposed ? CblasTrans : CblasNoTrans,
                g->b_transposed ? CblasTrans : CblasNoTrans, (blasint)g->rows, (blasint)g->columns,
                (blasint)g->depth, g->alpha, g->a, (blasint)g->a_stride, g->b, (blasint)g->b_stride,
                g->beta, g->c, (blasint)g->c_stride);
}

void attn_blas_sgemm(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b,
                     float *c)
{
    attn_blas_gemm(&(attn_gemm){.rows = rows,
                                .columns = columns,
                                .depth = depth,
                                .a = a,
                                .b = b,
                                .c = c,
                                .a_stride = depth,
                                .b_stride = columns,
                                .c_stride = columns,
                                .alpha = 1});
}
