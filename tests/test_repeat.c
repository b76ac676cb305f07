/* A part of a program that is repeated: which chunk a tile sees, what time is predicted, and that
 * neither grows with the number of chunks. */
#include "program/step.h"
#include "tests/support/suite.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum {
    ROWS = 4,
    COLUMNS = 3,
    TILES = 2,
    CHUNKS = 5,
    PHASES = 3 /* of the part: one step of 1, one of 2 */
};

/* A step that adds 1 to the first row of a chunk, and notes where the chunk begins. */
typedef struct mark {
    attn_step step;
    double tile_ns;
} mark;

static attn_phase phase_of(const attn_step *step, int phase)
{
    const mark *m = (const mark *)(const void *)step;
    return (attn_phase){"mark", TILES, m->tile_ns * (phase + 1)};
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const attn_frame *frame = tile->frame;
    (void)step;
    frame->data[ATTN_ARRAY_OUT][tile->index] += 1;
    frame->data[ATTN_ARRAY_OUT][COLUMNS - 1] = (float)frame->row;
    frame->data[ATTN_ARRAY_INPUT][0] += 1;
    return ATTN_OK;
}

static const attn_step_kind kind = {.phase = phase_of, .run = run};

static void add(attn_program *program, int phases, double tile_ns, size_t scratch_bytes)
{
    attn_error error = {0};
    mark *m = attn_program_add(program, &kind, sizeof *m, phases, &error);
    CHECK(m != NULL, "no memory");
    m->tile_ns = tile_ns;
    m->step.scratch_bytes = scratch_bytes;
}

/* A step, the part `times` times, a step. */
static attn_program *open_program(int64_t times, attn_status *status)
{
    attn_error error = {0};
    attn_program *program = attn_program_open();
    size_t offset = 0;
    attn_program_take(program, 100, &offset, &error);
    add(program, 1, 7, 64);
    attn_program *part = attn_program_open_part(program, &error);
    attn_program_take(part, 200, &offset, &error);
    CHECK(offset >= 100, "the part's workspace begins at %zu, in that of the program", offset);
    add(part, 1, 1, 128);
    add(part, 2, 10, 0);
    *status = attn_program_repeat(program, part, times, ROWS, COLUMNS, &error);
    add(program, 2, 5, 0);
    return program;
}

static void test_tiles_see_their_chunk(void)
{
    attn_status status;
    attn_program *program = open_program(CHUNKS, &status);
    float input[CHUNKS * ROWS * COLUMNS] = {0}, out[CHUNKS * ROWS * COLUMNS] = {0};
    const attn_frame frame = {.data = {[ATTN_ARRAY_INPUT] = input, [ATTN_ARRAY_OUT] = out}};
    CHECK(status == ATTN_OK, "status %d", status);
    CHECK(attn_program_phases(program) == 1 + CHUNKS * PHASES + 2, "%d phases",
          attn_program_phases(program));
    for (int p = 1; p <= CHUNKS * PHASES; p++)
        for (int64_t tile = 0; tile < attn_program_phase(program, p).tiles; tile++)
            attn_program_run(program, &frame, p, tile, NULL);
    for (int i = 0; i < CHUNKS * ROWS; i++) {
        const float *row = out + i * COLUMNS;
        bool begins = i % ROWS == 0;
        float times = begins ? PHASES : 0;
        CHECK(row[0] == times && row[1] == times && row[2] == (begins ? (float)i : 0),
              "row %d is %g %g %g", i, row[0], row[1], row[2]);
        CHECK(input[i * COLUMNS] == TILES * times, "input row %d is %g", i, input[i * COLUMNS]);
    }
    CHECK(attn_program_shared_bytes(program) >= 300 * sizeof(float), "%zu bytes shared",
          attn_program_shared_bytes(program));
    CHECK(attn_program_scratch_bytes(program) == 128, "%zu bytes of scratch",
          attn_program_scratch_bytes(program));
    attn_program_close(program);
}

static void test_time_is_the_sum_of_phases(void)
{
    attn_status status;
    attn_program *program = open_program(CHUNKS, &status);
    int phases = attn_program_phases(program);
    for (int workers = 1; workers <= 3; workers++) {
        double sum = 0;
        for (int p = phases; p >= 0; p--) {
            const attn_crew crew = {.workers = workers, .pace = 2, .barrier_ns = 3};
            double told = attn_program_ns_from(program, p, &crew);
            CHECK(fabs(told - sum) < 1e-9, "%d workers, phases from %d: %g ns, expected %g",
                  workers, p, told, sum);
            if (p == 0)
                break;
            attn_phase phase = attn_program_phase(program, p - 1);
            sum +=
                3 + 2 * (double)phase.tiles * phase.tile_ns / (workers < TILES ? workers : TILES);
        }
    }
    attn_program_close(program);
}

static void test_the_longest(void)
{
    attn_status status;
    attn_program *program = open_program(INT_MAX / 2 / PHASES - 1, &status);
    double ns = attn_program_remaining_ns(program, 0);
    CHECK(status == ATTN_OK, "status %d", status);
    CHECK(ns > 1e10 && isfinite(ns), "%g ns", ns);
    attn_program_close(program);
    program = open_program(INT_MAX / 2 / PHASES + 1, &status);
    CHECK(status == ATTN_INVALID, "more phases than an int counts: status %d", status);
    attn_program_close(program);
    program = open_program(INT64_MAX, &status);
    CHECK(status == ATTN_INVALID, "INT64_MAX times: status %d", status);
    attn_program_close(program);
}

int main(void)
{
    static const test_case cases[] = {{"tiles see their chunk", test_tiles_see_their_chunk},
                                      {"time is the sum of phases", test_time_is_the_sum_of_phases},
                                      {"the longest", test_the_longest},
                                      {NULL, NULL}};
    return test_main("repeat", cases);
}
