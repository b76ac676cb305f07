/* Parts of a program's arrays, known before the arrays are: views (attn/tensor.h) without their
 * addresses. */
#ifndef ATTN_REGION_H
#define ATTN_REGION_H

#include "attn/program.h"

typedef struct attn_region {
    attn_array array;
    size_t offset; /* floats */
    ptrdiff_t batch, head, row;
} attn_region;

attn_view attn_region_view(attn_region region, const attn_frame *frame);

/* A dense region (…, heads, rows, columns) at the start of an array. */
attn_region attn_region_dense(attn_array array, int64_t heads, int64_t rows, int64_t columns);

/* Rows of sequences, from `offset` on: (batch, rows, columns). */
attn_region attn_region_rows(attn_array array, size_t offset, int64_t rows, int64_t columns);

/* The same from row `from`, or from column `from`, on. */
attn_region attn_region_from_row(attn_region region, int64_t from);
attn_region attn_region_from_column(attn_region region, int64_t from);

/* The same rows with heads side by side, each `columns` wide. */
attn_region attn_region_with_heads(attn_region region, int64_t columns);

#endif
