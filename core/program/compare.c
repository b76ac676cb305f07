/* How far sampled rows of the answer are from exact ones: sums of squares, a part a tile, added up
 * in order by whoever asks. */
#include "program/sample.h"

enum {
    FLOATS_A_TILE = 1 << 18,
};

typedef struct compare {
    attn_step step;
    attn_samples samples;
    int64_t heads, columns;
    attn_region exact, answer;
    int64_t rows_a_tile; /* a row here is one head's of one sample */
    size_t sums;         /* offset in floats: a pair of doubles a tile */
} compare;

static void add_row(const float *exact, const float *answer, int64_t columns, double sums[2])
{
    for (int64_t i = 0; i < columns; i++) {
        double difference = (double)answer[i] - exact[i];
        sums[0] += difference * difference;
        sums[1] += (double)exact[i] * exact[i];
    }
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const compare *c = (const void *)step;
    attn_view exact = attn_region_view(c->exact, tile->frame);
    attn_view answer = attn_region_view(c->answer, tile->frame);
    float *shared = tile->frame->data[ATTN_ARRAY_SHARED];
    double *sums = (double *)(void *)(shared + c->sums) + 2 * tile->index;
    int64_t row = tile->index * c->rows_a_tile, end = row + c->rows_a_tile;
    int64_t rows = c->samples.count * c->heads;
    sums[0] = sums[1] = 0;
    for (; row < end && row < rows; row++) {
        int64_t s = row / c->heads, h = row % c->heads;
        add_row(attn_view_row(exact, 0, h, s),
                attn_view_row(answer, c->samples.at[s].b, h, c->samples.at[s].i), c->columns, sums);
    }
    return ATTN_OK;
}

static const attn_step_kind kind = {.run = run};

attn_status attn_compare_add(attn_program *program, const attn_rates *rates,
                             const attn_samples *samples, int64_t heads, int64_t columns,
                             attn_region exact, attn_region answer, attn_error *error)
{
    compare *c = attn_program_add(program, &kind, sizeof *c, 1, error);
    int64_t rows_a_tile = columns < FLOATS_A_TILE ? FLOATS_A_TILE / columns : 1;
    int64_t tiles = (samples->count * heads + rows_a_tile - 1) / rows_a_tile;
    double floats = 2.0 * (double)tiles * sizeof(double) / sizeof(float);
    if (!c)
        return ATTN_NO_MEMORY;
    c->samples = *samples;
    c->heads = heads;
    c->columns = columns;
    c->exact = exact;
    c->answer = answer;
    c->rows_a_tile = rows_a_tile;
    double floats_a_tile = (double)(samples->count * heads * columns) / (double)tiles;
    c->step.phase = (attn_phase){"compare", tiles, floats_a_tile * rates->norm_float_ns};
    attn_status status = attn_program_take(program, floats, &c->sums, error);
    attn_program_set_deviation(program, samples->count, tiles, c->sums);
    return status;
}
