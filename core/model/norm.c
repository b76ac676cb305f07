/* Normalising rows. Sums are kept in double: a mean of thousands of floats would lose digits that
 * the rest of a layer keeps. */
#include "model/norm.h"

#include <math.h>

enum {
    FLOATS_A_TILE = 1 << 18,
    SUMS = 8,
};

typedef struct norm_step {
    attn_step step;
    attn_row_norm norm;
    attn_region x, y;
    attn_extent extent;
    int64_t columns;
    int64_t rows_a_tile, tiles_a_sequence;
} norm_step;

/* Eight sums at once: one alone would wait for each addition, and these are vectors. */
static double sum_of(const float *x, int64_t count, double mean, bool squares)
{
    double sums[SUMS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (int s = 0; s < SUMS; s++) {
            double value = x[i + s] - mean;
            sums[s] += squares ? value * value : value;
        }
    for (; i < count; i++)
        sum += squares ? (x[i] - mean) * (x[i] - mean) : x[i] - mean;
    for (int s = 0; s < SUMS; s++)
        sum += sums[s];
    return sum;
}

static void normalize(const attn_row_norm *norm, const float *x, float *y, int64_t count)
{
    double mean =
        norm->kind == ATTN_NORMALIZATION_LAYER ? sum_of(x, count, 0, false) / (double)count : 0;
    double variance = sum_of(x, count, mean, true) / (double)count;
    double factor = 1 / sqrt(variance + norm->epsilon);
    for (int64_t i = 0; i < count; i++) {
        double value = (x[i] - mean) * factor;
        if (norm->weight)
            value *= norm->weight[i];
        if (norm->bias)
            value += norm->bias[i];
        y[i] = (float)value;
    }
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const norm_step *s = (const void *)step;
    int64_t b = tile->index / s->tiles_a_sequence;
    int64_t row = tile->index % s->tiles_a_sequence * s->rows_a_tile;
    int64_t end = row + s->rows_a_tile < s->extent.rows ? row + s->rows_a_tile : s->extent.rows;
    attn_view x = attn_region_view(s->x, tile->frame), y = attn_region_view(s->y, tile->frame);
    for (; row < end; row++)
        normalize(&s->norm, attn_view_row(x, b, 0, row), attn_view_row(y, b, 0, row), s->columns);
    return ATTN_OK;
}

static const attn_step_kind kind = {.run = run};

attn_status attn_row_norm_add(attn_program *program, const attn_rates *rates,
                              const attn_row_norm *norm, attn_region x, attn_region y,
                              attn_extent extent, int64_t columns, attn_error *error)
{
    norm_step *s = attn_program_add(program, &kind, sizeof *s, 1, error);
    if (!s)
        return ATTN_NO_MEMORY;
    int64_t rows = columns < FLOATS_A_TILE ? FLOATS_A_TILE / columns : 1;
    s->norm = *norm;
    s->x = x;
    s->y = y;
    s->extent = extent;
    s->columns = columns;
    s->rows_a_tile = rows < extent.rows ? rows : extent.rows;
    s->tiles_a_sequence = (extent.rows + s->rows_a_tile - 1) / s->rows_a_tile;
    /* Each float is read for the mean, if there is one, for the variance, and to be changed. */
    int passes = norm->kind == ATTN_NORMALIZATION_LAYER ? 3 : 2;
    double floats_a_tile = (double)(extent.rows * columns) / (double)s->tiles_a_sequence;
    s->step.phase = (attn_phase){"normalize", extent.batch * s->tiles_a_sequence,
                                 passes * floats_a_tile * rates->norm_float_ns};
    return ATTN_OK;
}
