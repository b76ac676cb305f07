/* Steps in a row, and the workspace they share. */
#include "program/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STEPS_AT_FIRST = 8,
    FLOATS_A_LINE = ATTN_ALIGN / sizeof(float),
};

#define MOST_FLOATS 0x1p60 /* far beyond any machine, and in bytes within a size_t */

struct attn_program {
    attn_step **steps;
    int count, room;
    size_t used, peak; /* floats of SHARED */
    char warning[sizeof((attn_plan *)NULL)->warning];
    int sampled_rows;
    int64_t deviation_tiles;
    size_t deviation; /* offset in floats; see attn_program_set_deviation */
};

attn_program *attn_program_open(void)
{
    return calloc(1, sizeof(attn_program));
}

void attn_program_close(attn_program *program)
{
    for (int i = 0; program && i < program->count; i++) {
        attn_step *step = program->steps[i];
        if (step->kind->close)
            step->kind->close(step);
        free(step);
    }
    if (program)
        free(program->steps);
    free(program);
}

attn_program *attn_program_open_part(const attn_program *program, attn_error *error)
{
    attn_program *part = attn_program_open();
    if (part)
        part->used = part->peak = program->used;
    else
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a part of a program");
    return part;
}

static bool grow(attn_program *program)
{
    if (program->count < program->room)
        return true;
    int room = program->room ? 2 * program->room : STEPS_AT_FIRST;
    attn_step **steps = realloc(program->steps, (size_t)room * sizeof(attn_step *));
    if (!steps)
        return false;
    program->steps = steps;
    program->room = room;
    return true;
}

void *attn_program_add(attn_program *program, const attn_step_kind *kind, size_t bytes, int phases,
                       attn_error *error)
{
    attn_step *step = grow(program) ? calloc(1, bytes) : NULL;
    if (!step) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a step of the program");
        return NULL;
    }
    *step = (attn_step){.kind = kind, .first = attn_program_phases(program), .phases = phases};
    program->steps[program->count++] = step;
    return step;
}

void attn_program_warn(attn_program *program, const char *warning)
{
    if (!program->warning[0])
        snprintf(program->warning, sizeof program->warning, "%s", warning);
}

const char *attn_program_warning(const attn_program *program)
{
    return program->warning;
}

attn_status attn_program_take(attn_program *program, double floats, size_t *offset,
                              attn_error *error)
{
    double lines = ceil(floats / FLOATS_A_LINE);
    if (!((double)program->used + lines * FLOATS_A_LINE < MOST_FLOATS))
        return attn_error_set(error, ATTN_INVALID, NULL,
                              "the call needs more workspace than can be counted");
    *offset = program->used;
    program->used += (size_t)lines * FLOATS_A_LINE;
    if (program->used > program->peak)
        program->peak = program->used;
    return ATTN_OK;
}

attn_status attn_program_take_rows(attn_program *program, int64_t batch, int64_t rows,
                                   int64_t columns, attn_region *region, attn_error *error)
{
    size_t offset = 0;
    double floats = (double)batch * (double)rows * (double)columns;
    attn_status status = attn_program_take(program, floats, &offset, error);
    *region = attn_region_rows(ATTN_ARRAY_SHARED, offset, rows, columns);
    return status;
}

size_t attn_program_mark(const attn_program *program)
{
    return program->used;
}

void attn_program_rewind(attn_program *program, size_t mark)
{
    program->used = mark;
}

void attn_program_cover(attn_program *program, const attn_program *part)
{
    program->peak = part->peak > program->peak ? part->peak : program->peak;
}

int attn_program_phases(const attn_program *program)
{
    if (program->count == 0)
        return 0;
    const attn_step *last = program->steps[program->count - 1];
    return last->first + last->phases;
}

/* The step whose phase it is: the last one that begins at or before it. */
static const attn_step *step_at(const attn_program *program, int phase)
{
    int low = 0, high = program->count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (program->steps[middle]->first <= phase)
            low = middle;
        else
            high = middle - 1;
    }
    return program->steps[low];
}

static attn_phase phase_of(const attn_step *step, int phase)
{
    return step->kind->phase ? step->kind->phase(step, phase) : step->phase;
}

attn_phase attn_program_phase(const attn_program *program, int phase)
{
    const attn_step *step = step_at(program, phase);
    return phase_of(step, phase - step->first);
}

attn_status attn_program_run(const attn_program *program, const attn_frame *frame, int phase,
                             int64_t tile, attn_arena *scratch)
{
    const attn_step *step = step_at(program, phase);
    const attn_step_tile at = {
        .frame = frame, .phase = phase - step->first, .index = tile, .scratch = scratch};
    return step->kind->run(step, &at);
}

size_t attn_program_shared_bytes(const attn_program *program)
{
    return program->peak * sizeof(float);
}

size_t attn_program_scratch_bytes(const attn_program *program)
{
    size_t most = 0;
    for (int i = 0; i < program->count; i++)
        most = program->steps[i]->scratch_bytes > most ? program->steps[i]->scratch_bytes : most;
    return most;
}

size_t attn_program_bytes(const attn_program *program, int workers)
{
    return attn_program_shared_bytes(program) +
           (size_t)workers * attn_program_scratch_bytes(program);
}

double attn_program_flops(const attn_program *program)
{
    double flops = 0;
    for (int i = 0; i < program->count; i++)
        flops += program->steps[i]->flops;
    return flops;
}

double attn_phase_ns(const attn_phase *phase, const attn_crew *crew)
{
    double tiles = (double)phase->tiles;
    double at_once = tiles < crew->workers ? tiles : (double)crew->workers;
    double alone_ns = tiles * (phase->tile_ns * crew->pace + crew->tile_ns);
    double together_ns = alone_ns / at_once + (at_once > 1 ? crew->wake_ns : 0);
    return crew->barrier_ns + (together_ns < alone_ns ? together_ns : alone_ns);
}

static double step_ns(const attn_step *step, int from, const attn_crew *crew)
{
    if (step->kind->ns)
        return step->kind->ns(step, from, crew);
    double total = 0;
    for (int p = from; p < step->phases; p++) {
        attn_phase phase = phase_of(step, p);
        total += attn_phase_ns(&phase, crew);
    }
    return total;
}

double attn_program_ns_from(const attn_program *program, int from, const attn_crew *crew)
{
    double total = 0;
    for (int i = program->count - 1; i >= 0; i--) {
        const attn_step *step = program->steps[i];
        if (step->first + step->phases <= from)
            break;
        total += step_ns(step, from > step->first ? from - step->first : 0, crew);
    }
    return total;
}

double attn_program_remaining_ns(const attn_program *program, int from)
{
    return attn_program_ns_from(program, from, &(attn_crew){.workers = 1, .pace = 1});
}

double attn_program_ns(const attn_program *program, const attn_crew *crew)
{
    return attn_program_ns_from(program, 0, crew);
}

void attn_program_set_deviation(attn_program *program, int rows, int64_t tiles, size_t offset)
{
    program->sampled_rows = rows;
    program->deviation_tiles = tiles;
    program->deviation = offset;
}

attn_deviation attn_program_deviation(const attn_program *program, const attn_frame *frame)
{
    attn_deviation deviation = {.rows = program->sampled_rows};
    if (deviation.rows == 0)
        return deviation;
    const double *sums =
        (const double *)(const void *)(frame->data[ATTN_ARRAY_SHARED] + program->deviation);
    double difference = 0, exact = 0;
    for (int64_t t = 0; t < program->deviation_tiles; t++) {
        difference += sums[2 * t];
        exact += sums[2 * t + 1];
    }
    deviation.relative_l2 = difference == 0 ? 0 : sqrt(difference / exact);
    return deviation;
}
