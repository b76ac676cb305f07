/* The seam between a program and its steps: a step is a few phases over regions of the arrays. A
 * new kind of step is one file that ends in a const attn_step_kind and one function that appends
 * it. */
#ifndef ATTN_STEP_H
#define ATTN_STEP_H

#include "program/region.h"

typedef struct attn_step attn_step;

/* What a step is told of one of its tiles. */
typedef struct attn_step_tile {
    const attn_frame *frame;
    int phase; /* of the step's */
    int64_t index;
    attn_arena *scratch; /* lends the step's scratch_bytes */
} attn_step_tile;

typedef struct attn_step_kind {
    attn_phase (*phase)(const attn_step *step, int phase); /* NULL: of the one, step->phase tells */
    attn_status (*run)(const attn_step *step, const attn_step_tile *tile);
    /* Time of phases [from, end). NULL: they are few enough to be added up. */
    double (*ns)(const attn_step *step, int from, const attn_crew *crew);
    void (*close)(attn_step *step); /* what the step owns; NULL: nothing but its block */
} attn_step_kind;

/* The beginning of every step, which is one block of memory. */
struct attn_step {
    const attn_step_kind *kind;
    int first, phases;    /* of the program's phases, those that are this step's */
    attn_phase phase;     /* set by whoever appends it, unless the kind tells */
    size_t scratch_bytes; /* 0 unless whoever appends it says otherwise */
    double flops;         /* the same; see attn_program_flops */
};

/* An empty program; NULL: no memory. */
attn_program *attn_program_open(void);

/* A zeroed step of `bytes` at the end of the program, which owns it. NULL, and an error: no memory.
 */
void *attn_program_add(attn_program *program, const attn_step_kind *kind, size_t bytes, int phases,
                       attn_error *error);

/* A program whose workspace begins where this one's ends for now; NULL, and an error: no memory.
 */
attn_program *attn_program_open_part(const attn_program *program, attn_error *error);

/* Append the part, which then belongs to the program even when this fails, as one step that runs it
 * `times` times: each time INPUT and OUT begin `rows` rows, of `columns` floats, further on. A
 * program is so no larger for a longer sequence. */
attn_status attn_program_repeat(attn_program *program, attn_program *part, int64_t times,
                                int64_t rows, int64_t columns, attn_error *error);

/* Time of phases [from, end). */
double attn_program_ns_from(const attn_program *program, int from, const attn_crew *crew);

/* Set a warning unless there is one. */
void attn_program_warn(attn_program *program, const char *warning);

/* Where in SHARED the sampled rows' sums of squares come to lie: `tiles` pairs of doubles, of the
 * difference and of exact attention. */
void attn_program_set_deviation(attn_program *program, int rows, int64_t tiles, size_t offset);

/* Workspace is taken like an arena's: `floats` of SHARED, ATTN_ALIGN-aligned, from *offset on; what
 * was taken since a mark can be given to later steps. ATTN_INVALID when so much cannot be counted.
 */
attn_status attn_program_take(attn_program *program, double floats, size_t *offset,
                              attn_error *error);

/* The same for rows of sequences, (batch, rows, columns). */
attn_status attn_program_take_rows(attn_program *program, int64_t batch, int64_t rows,
                                   int64_t columns, attn_region *region, attn_error *error);

size_t attn_program_mark(const attn_program *program);
void attn_program_rewind(attn_program *program, size_t mark);

/* What a part took at most counts as this program's, too. */
void attn_program_cover(attn_program *program, const attn_program *part);

#endif
