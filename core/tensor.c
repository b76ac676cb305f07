/* Views of dense arrays. */
#include "attn/tensor.h"

attn_view attn_view_dense(float *data, int64_t heads, int64_t rows, int64_t columns)
{
    /* A plan may be asked for sizes that nothing can have: their product wraps, and nobody reads.
     */
    size_t head = (size_t)rows * (size_t)columns;
    return (attn_view){
        .data = data,
        .batch = (ptrdiff_t)((size_t)heads * head),
        .head = (ptrdiff_t)head,
        .row = (ptrdiff_t)columns,
    };
}

float *attn_view_row(attn_view view, int64_t b, int64_t h, int64_t i)
{
    return view.data + b * view.batch + h * view.head + i * view.row;
}
