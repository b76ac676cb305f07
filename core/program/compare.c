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
    int64_t rows_a_tile, tiles; /* a row here is one head's of one sample */
    size_t sums;                /* offset in floats: a pair of doubles a tile */
    double tile_ns;
} compare;

static const compare *of_step(const attn_step *step)
{
    return (const compare *)(const void *)step;
}

static attn_phase phase_of(const attn_step *step, int phase)
{
    const compare *c = of_step(step);
    (void)phase;
    return (attn_phase){"compare", c->tiles, c->tile_ns};
}

static void add_row(const float *exact, const float *answer, int64_t columns, double sums[2])
{
    for (int64_t i = 0; i < columns; i++) {
        double difference = (double)answer[i] - exact[i];
        sums[0] += difference * difference;
        sums[1] += (double)exact[i] * exact[i];
    }
}

static attn_status run(const attn_step *step, const attn_frame *frame, int phase, int64_t tile,
                       attn_arena *scratch)
{
    const compare *c = of_step(step);
    attn_view exact = attn_region_view(c->exact, frame);
    attn_view answer = attn_region_view(c->answer, frame);
    double *sums = (double *)(void *)(frame->data[ATTN_ARRAY_SHARED] + c->sums) + 2 * tile;
    int64_t end = (tile + 1) * c->rows_a_tile, rows = c->samples.count * c->heads;
    (void)phase;
    (void)scratch;
    sums[0] = sums[1] = 0;
    for (int64_t row = tile * c->rows_a_tile; row < end && row < rows; row++) {
        int64_t s = row / c->heads, h = row % c->heads;
        add_row(attn_view_row(exact, 0, h, s),
                attn_view_row(answer, c->samples.at[s].b, h, c->samples.at[s].i), c->columns, sums);
    }
    return ATTN_OK;
}

static const attn_step_kind kind = {.phase = phase_of, .run = run};

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
    c->tiles = tiles;
    c->tile_ns = (double)(samples->count * heads * columns) / (double)tiles * rates->norm_float_ns;
    attn_status status = attn_program_take(program, floats, &c->sums, error);
    attn_program_set_deviation(program, samples->count, tiles, c->sums);
    return status;
}
