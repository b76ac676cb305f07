/* Views of dense arrays. */
#include "attn/tensor.h"

attn_view attn_view_dense(float *data, int64_t heads, int64_t rows, int64_t columns)
{
    return (attn_view){
        .data = data,
        .batch = (ptrdiff_t)(heads * rows * columns),
        .head = (ptrdiff_t)(rows * columns),
        .row = (ptrdiff_t)columns,
    };
}

float *attn_view_row(attn_view view, int64_t b, int64_t h, int64_t i)
{
    return view.data + b * view.batch + h * view.head + i * view.row;
}
