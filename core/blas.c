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

void attn_blas_sgemm(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b,
                     float *c)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)rows, (blasint)columns,
                (blasint)depth, 1.0F, a, (blasint)depth, b, (blasint)columns, 0.0F, c,
                (blasint)columns);
}
