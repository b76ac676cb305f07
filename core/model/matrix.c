/* Blocks of rows of a stored matrix. */
#include "model/matrix.h"

int64_t attn_matrix_scratch(const attn_matrix *matrix, int64_t count)
{
    return matrix->dtype == ATTN_FP32 ? 0 : count * matrix->columns;
}

const float *attn_matrix_rows(const attn_matrix *matrix, const attn_elementwise_kernels *kernels,
                              int64_t first, int64_t count, float *scratch)
{
    size_t skipped = (size_t)(first * matrix->columns);
    if (matrix->dtype == ATTN_FP32)
        return (const float *)matrix->data + skipped;
    const char *from = (const char *)matrix->data + skipped * attn_dtype_bytes(matrix->dtype);
    kernels->widen(matrix->dtype, from, (size_t)(count * matrix->columns), scratch);
    return scratch;
}
