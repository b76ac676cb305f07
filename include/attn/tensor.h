/* Borrowed views of float32 tensors. A view owns nothing and is copied freely. */
#ifndef ATTN_TENSOR_H
#define ATTN_TENSOR_H

#include <stddef.h>
#include <stdint.h>

/* A stack of matrices: element (b, h, i, c) is data[b*batch + h*head + i*row + c].
 * Strides count floats; the columns of a row are always adjacent, the rest need not be, so that
 * heads interleaved in one projection need no copy. */
typedef struct attn_view {
    float *data;
    ptrdiff_t batch, head, row;
} attn_view;

/* The view of a dense row-major array (…, heads, rows, columns). */
attn_view attn_view_dense(float *data, int64_t heads, int64_t rows, int64_t columns);

/* First element of row `i` of head `h` of batch `b`. */
float *attn_view_row(attn_view view, int64_t b, int64_t h, int64_t i);

#endif
