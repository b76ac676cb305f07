/* Tiles of x W^T. A tile is a block of rows of one sequence by some rows of W, which are widened to
 * float32 when the checkpoint stores 16 bits. Blocks begin anew in every sequence: OpenBLAS gives a
 * row other last bits in another place of a block, and a sequence must not notice who else is in
 * its batch.
 *
 * OpenBLAS copies both operands of every tile into an order of its own, which only large tiles
 * repay: of sgemm's speed (AVX-512, 768 deep) 256 x 256 reached 0.92 and 512 x 384 0.96. 1024 x 384
 * reached all of it, but then other requests wait for 3 ms.
 *
 * A LoRA adapter's W + scale B A is never formed: t = x A^T first, then scale t B^T on top. */
#include "model/product.h"

#include "attn/blas.h"
#include "kernels/kernels.h"

#include <string.h>

enum {
    MOST_BLOCK_ROWS = 512,
    MOST_COLUMNS = 384,         /* of y a tile computes */
    LEAST_COLUMNS = 16,         /* what sgemm's kernels take at once; blocks are multiples of it */
    WIDENED_FLOATS = 384 << 10, /* of W a tile holds, unless LEAST_COLUMNS need more */
};
#define MOST_ROWS 0x1p40 /* of all sequences; times any weight's columns still an int64_t */

/* One product of a step. */
typedef struct part {
    attn_product product;
    attn_matrix b; /* of LoRA: (out, r); no columns: none */
    attn_region t; /* x A^T */
    float scale;
    int64_t columns; /* of y a tile computes */
    int64_t tiles;   /* before this part begin the tiles of those before it */
} part;

typedef struct product_step {
    attn_step step;
    attn_extent extent;
    int64_t block_rows;
    const attn_elementwise_kernels *elementwise;
    int count;
    part parts[ATTN_PRODUCTS_MAX];
} product_step;

static int64_t blocks(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static void activate(const attn_elementwise_kernels *kernels, attn_activation activation, float *x,
                     int64_t count)
{
    switch (activation) {
    case ATTN_GELU:
        kernels->gelu(x, count);
        break;
    case ATTN_SILU:
        kernels->silu(x, count);
        break;
    case ATTN_RELU:
        for (int64_t i = 0; i < count; i++)
            x[i] = x[i] < 0 ? 0 : x[i];
        break;
    }
}

/* A block of y: its place, and its size. */
typedef struct block {
    int64_t b, row, column;
    int64_t rows, columns;
} block;

static float *row_of(attn_region region, const attn_frame *frame, const block *at, int64_t r)
{
    return attn_view_row(attn_region_view(region, frame), at->b, 0, at->row + r) + at->column;
}

/* Bias, activation and factor, on what the product left in y. */
static void finish_row(const attn_elementwise_kernels *kernels, const attn_product *p,
                       const float *times, float *y, const block *at)
{
    const float *bias = p->linear.bias;
    for (int64_t c = 0; bias && c < at->columns; c++)
        y[c] += bias[at->column + c];
    if (p->activates)
        activate(kernels, p->activation, y, at->columns);
    for (int64_t c = 0; times && c < at->columns; c++)
        y[c] *= times[c];
}

/* y += alpha x w^T; x begins at the block's row, w at its column. */
static void multiply(const attn_elementwise_kernels *kernels, const attn_frame *frame,
                     attn_region x, const attn_matrix *w, float alpha, bool adds, attn_region y,
                     const block *at, float *scratch)
{
    attn_view from = attn_region_view(x, frame);
    attn_blas_gemm(&(attn_gemm){
        .rows = at->rows,
        .columns = at->columns,
        .depth = w->columns,
        .a = attn_view_row(from, at->b, 0, at->row),
        .a_stride = x.row,
        .b = attn_matrix_rows(w, kernels, at->column, at->columns, scratch),
        .b_stride = (ptrdiff_t)w->columns,
        .b_transposed = true,
        .c = row_of(y, frame, at, 0),
        .c_stride = y.row,
        .alpha = alpha,
        .beta = adds ? 1 : 0,
    });
}

static void run_block(const product_step *s, const part *p, const attn_frame *frame,
                      const block *at, float *scratch)
{
    const attn_product *product = &p->product;
    size_t bytes = (size_t)at->columns * sizeof(float);
    if (product->adds)
        for (int64_t r = 0; r < at->rows; r++)
            memmove(row_of(product->y, frame, at, r), row_of(product->onto, frame, at, r), bytes);
    multiply(s->elementwise, frame, product->x, &product->linear.weight, 1, product->adds,
             product->y, at, scratch);
    if (p->b.columns)
        multiply(s->elementwise, frame, p->t, &p->b, p->scale, true, product->y, at, scratch);
    for (int64_t r = 0; r < at->rows; r++)
        finish_row(s->elementwise, product,
                   product->multiplies ? row_of(product->times, frame, at, r) : NULL,
                   row_of(product->y, frame, at, r), at);
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const product_step *s = (const void *)step;
    const part *p = s->parts;
    int64_t index = tile->index;
    float *widened =
        step->scratch_bytes ? attn_arena_take(tile->scratch, step->scratch_bytes) : NULL;
    if (step->scratch_bytes && !widened)
        return ATTN_NO_MEMORY;
    while (index >= p->tiles)
        index -= p++->tiles;
    int64_t out = p->product.linear.weight.rows, across = blocks(out, p->columns);
    int64_t down = blocks(s->extent.rows, s->block_rows), strip = index / across;
    block at = {.b = strip / down, .row = strip % down * s->block_rows};
    at.column = index % across * p->columns;
    at.rows = s->extent.rows - at.row < s->block_rows ? s->extent.rows - at.row : s->block_rows;
    at.columns = out - at.column < p->columns ? out - at.column : p->columns;
    run_block(s, p, tile->frame, &at, widened);
    return ATTN_OK;
}

static const attn_step_kind kind = {.run = run};

/* One block, or an even number of about the same size: of few tiles none is small, and none is left
 * over for which all other workers wait. */
static int64_t block_size(int64_t count, int64_t most)
{
    int64_t pieces = blocks(count, most);
    int64_t size = blocks(count, pieces > 1 ? pieces + pieces % 2 : 1);
    return blocks(size, LEAST_COLUMNS) * LEAST_COLUMNS;
}

static int64_t columns_a_tile(const attn_matrix *w)
{
    int64_t most = WIDENED_FLOATS / w->columns / LEAST_COLUMNS * LEAST_COLUMNS;
    most = most < LEAST_COLUMNS ? LEAST_COLUMNS : most < MOST_COLUMNS ? most : MOST_COLUMNS;
    return block_size(w->rows, most);
}

static size_t widened_bytes(const attn_matrix *w, int64_t count)
{
    count = count < w->rows ? count : w->rows;
    return (size_t)attn_matrix_scratch(w, count) * sizeof(float);
}

/* Predicted time to bring a matrix to every block of rows and multiply. */
static double matrix_ns(const attn_rates *rates, const product_step *s, const attn_matrix *w)
{
    double down = (double)blocks(s->extent.rows, s->block_rows);
    double weights = (double)w->rows * (double)w->columns;
    double widen_ns = w->dtype == ATTN_FP32 ? 0 : weights * rates->widen_ns;
    return (double)s->extent.batch * down *
           (widen_ns + attn_product_ns(rates, (double)s->extent.rows / down, (double)w->rows,
                                       (double)w->columns));
}

/* Predicted time of what becomes of a number of y before and after the product. */
static double finish_ns(const attn_rates *rates, const attn_product *p)
{
    double ns = 0;
    if (p->adds)
        ns += rates->copy_float_ns;
    if (p->linear.bias)
        ns += rates->copy_float_ns;
    if (p->multiplies)
        ns += rates->copy_float_ns;
    if (p->activates && p->activation != ATTN_RELU)
        ns += p->activation == ATTN_GELU ? rates->gelu_ns : rates->silu_ns;
    return ns;
}

/* Sizes of a part, and its share of the step's tiles, flops and scratch; returns its predicted
 * time. */
static double open_part(product_step *s, const attn_rates *rates, part *p)
{
    const attn_matrix *w = &p->product.linear.weight;
    p->columns = columns_a_tile(w);
    p->tiles =
        s->extent.batch * blocks(s->extent.rows, s->block_rows) * blocks(w->rows, p->columns);
    size_t bytes = widened_bytes(w, p->columns), low_rank = widened_bytes(&p->b, p->columns);
    bytes = bytes > low_rank ? bytes : low_rank;
    s->step.scratch_bytes = bytes > s->step.scratch_bytes ? bytes : s->step.scratch_bytes;
    s->step.phase.tiles += p->tiles;
    s->step.flops += 2.0 * (double)s->extent.batch * (double)s->extent.rows * (double)w->rows *
                     (double)(w->columns + p->b.columns);
    double numbers = (double)s->extent.batch * (double)s->extent.rows * (double)w->rows;
    return matrix_ns(rates, s, w) + matrix_ns(rates, s, &p->b) +
           numbers * finish_ns(rates, &p->product);
}

static attn_status add_step(attn_program *program, const attn_machine *machine, const part *parts,
                            int count, attn_extent extent, attn_error *error)
{
    double ns = 0;
    if ((double)extent.batch * (double)extent.rows > MOST_ROWS)
        return attn_error_set(error, ATTN_INVALID, "batch",
                              "batch and n make more tiles than can be counted");
    product_step *s = attn_program_add(program, &kind, sizeof *s, 1, error);
    if (!s)
        return ATTN_NO_MEMORY;
    s->extent = extent;
    s->elementwise = attn_kernels_find(machine->isa)->elementwise;
    s->block_rows = block_size(extent.rows, MOST_BLOCK_ROWS);
    s->count = count;
    s->step.phase.name = "project";
    for (int i = 0; i < count; i++) {
        s->parts[i] = parts[i];
        ns += open_part(s, &machine->rates, &s->parts[i]);
    }
    s->step.scratch_bytes = attn_arena_round(s->step.scratch_bytes);
    s->step.phase.tile_ns = ns / (double)s->step.phase.tiles;
    return ATTN_OK;
}

/* The low-rank halves t = x A^T of those products that the adapter adapts. */
static attn_status add_low_rank(attn_program *program, const attn_machine *machine,
                                const attn_adapter *adapter, part *parts, int count,
                                attn_extent extent, attn_error *error)
{
    part halves[ATTN_PRODUCTS_MAX];
    int adapted = 0;
    attn_status status = ATTN_OK;
    for (int i = 0; i < count && status == ATTN_OK; i++) {
        const attn_linear *linear = &parts[i].product.linear;
        const attn_lora *lora = attn_adapter_find(adapter, linear->prefix, linear->name);
        if (!lora)
            continue;
        status = attn_program_take_rows(program, extent.batch, extent.rows, lora->a.rows,
                                        &parts[i].t, error);
        parts[i].b = lora->b;
        parts[i].scale = lora->scale;
        halves[adapted++] = (part){
            .product = {.linear = {.weight = lora->a}, .x = parts[i].product.x, .y = parts[i].t}};
    }
    if (status == ATTN_OK && adapted)
        status = add_step(program, machine, halves, adapted, extent, error);
    return status;
}

attn_status attn_products_add(attn_program *program, const attn_machine *machine,
                              const attn_adapter *adapter, const attn_product *products, int count,
                              attn_extent extent, attn_error *error)
{
    part parts[ATTN_PRODUCTS_MAX] = {0};
    attn_status status = ATTN_OK;
    for (int i = 0; i < count; i++)
        parts[i].product = products[i];
    if (adapter)
        status = add_low_rank(program, machine, adapter, parts, count, extent, error);
    if (status == ATTN_OK)
        status = add_step(program, machine, parts, count, extent, error);
    return status;
}
