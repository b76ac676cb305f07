/* Regions and the views they become. */
#include "program/region.h"

attn_view attn_region_view(attn_region region, const attn_frame *frame)
{
    return (attn_view){.data = frame->data[region.array] + region.offset,
                       .batch = region.batch,
                       .head = region.head,
                       .row = region.row};
}

attn_region attn_region_dense(attn_array array, int64_t heads, int64_t rows, int64_t columns)
{
    attn_view dense = attn_view_dense(NULL, heads, rows, columns);
    return (attn_region){
        .array = array, .batch = dense.batch, .head = dense.head, .row = dense.row};
}

attn_region attn_region_rows(attn_array array, size_t offset, int64_t rows, int64_t columns)
{
    attn_region region = attn_region_dense(array, 1, rows, columns);
    region.offset = offset;
    return region;
}

attn_region attn_region_from_row(attn_region region, int64_t from)
{
    region.offset += (size_t)(from * region.row);
    return region;
}

attn_region attn_region_from_column(attn_region region, int64_t from)
{
    region.offset += (size_t)from;
    return region;
}

attn_region attn_region_with_heads(attn_region region, int64_t columns)
{
    region.head = (ptrdiff_t)columns;
    return region;
}
