/* A part of a program that runs over a sequence chunk by chunk, as one step. Its phases are those
 * of the part, as often as there are chunks; what differs between chunks is where INPUT and OUT
 * begin.
 */
#include "program/step.h"

#include <limits.h>

enum {
    MOST_PHASES = INT_MAX / 2 /* of a program; the rest is for the steps behind */
};

typedef struct repeat {
    attn_step step;
    attn_program *part;
    int64_t times, rows, columns;
} repeat;

static const repeat *of_step(const attn_step *step)
{
    return (const repeat *)(const void *)step;
}

static attn_phase phase_of(const attn_step *step, int phase)
{
    const attn_program *part = of_step(step)->part;
    return attn_program_phase(part, phase % attn_program_phases(part));
}

static attn_status run(const attn_step *step, const attn_step_tile *tile)
{
    const repeat *r = of_step(step);
    int phases = attn_program_phases(r->part);
    int64_t rows = tile->phase / phases * r->rows;
    attn_frame moved = *tile->frame;
    moved.row += rows;
    moved.data[ATTN_ARRAY_INPUT] += rows * r->columns;
    moved.data[ATTN_ARRAY_OUT] += rows * r->columns;
    return attn_program_run(r->part, &moved, tile->phase % phases, tile->index, tile->scratch);
}

static double ns(const attn_step *step, int from, const attn_crew *crew)
{
    const repeat *r = of_step(step);
    int phases = attn_program_phases(r->part);
    int64_t whole = r->times - (from + phases - 1) / phases;
    double total = (double)whole * attn_program_ns(r->part, crew);
    if (from % phases)
        total += attn_program_ns_from(r->part, from % phases, crew);
    return total;
}

static void close_part(attn_step *step)
{
    attn_program_close(of_step(step)->part);
}

static const attn_step_kind kind = {.phase = phase_of, .run = run, .ns = ns, .close = close_part};

attn_status attn_program_repeat(attn_program *program, attn_program *part, int64_t times,
                                int64_t rows, int64_t columns, attn_error *error)
{
    double phases = (double)times * attn_program_phases(part);
    attn_status status = ATTN_OK;
    repeat *r = NULL;
    if (attn_program_phases(program) + phases > MOST_PHASES)
        status = attn_error_set(error, ATTN_INVALID, "input",
                                "so many positions make more phases than can be counted");
    else if (!(r = attn_program_add(program, &kind, sizeof *r, (int)phases, error)))
        status = ATTN_NO_MEMORY;
    if (status != ATTN_OK) {
        attn_program_close(part);
        return status;
    }
    r->part = part;
    r->times = times;
    r->rows = rows;
    r->columns = columns;
    r->step.scratch_bytes = attn_program_scratch_bytes(part);
    r->step.flops = (double)times * attn_program_flops(part);
    attn_program_cover(program, part);
    return ATTN_OK;
}
