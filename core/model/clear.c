/* Zeros for padding. A layer's steps work on whole sequences; what they leave in the rows beyond a
 * length means nothing. */
#include "model/clear.h"

#include <string.h>

enum {
    ROWS = 1024 /* a tile */
};

typedef struct clear {
    attn_step step;
    const int64_t *lengths;
    attn_region x;
    int64_t batch, n, columns;
} clear;

static int64_t tiles_a_sequence(const clear *c)
{
    return (c->n + ROWS - 1) / ROWS;
}

/* Of all sequences. */
static double cleared_rows(const clear *c)
{
    double rows = 0;
    for (int64_t b = 0; b < c->batch; b++)
        rows += (double)(c->n - c->lengths[b]);
    return rows;
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const clear *c = (const void *)step;
    int64_t b = tile->index / tiles_a_sequence(c);
    int64_t first = tile->index % tiles_a_sequence(c) * ROWS;
    int64_t end = first + ROWS < c->n ? first + ROWS : c->n;
    attn_view x = attn_region_view(c->x, tile->frame);
    for (int64_t i = first > c->lengths[b] ? first : c->lengths[b]; i < end; i++)
        memset(attn_view_row(x, b, 0, i), 0, (size_t)c->columns * sizeof(float));
    return ATTN_OK;
}

static const attn_step_kind kind = {.run = run};

attn_status attn_clear_add(attn_program *program, const attn_rates *rates, const int64_t *lengths,
                           attn_region x, int64_t batch, int64_t n, int64_t columns,
                           attn_error *error)
{
    clear *c = attn_program_add(program, &kind, sizeof *c, 1, error);
    if (!c)
        return ATTN_NO_MEMORY;
    c->lengths = lengths;
    c->x = x;
    c->batch = batch;
    c->n = n;
    c->columns = columns;
    int64_t tiles = batch * tiles_a_sequence(c);
    double rows_a_tile = cleared_rows(c) / (double)tiles + 1;
    c->step.phase =
        (attn_phase){"clear", tiles, rows_a_tile * (double)columns * rates->copy_float_ns};
    return ATTN_OK;
}
