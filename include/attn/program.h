/* What a request computes: steps one after another, each of phases of tiles (attn/plan.h), over one
 * workspace that is sized before anything runs.
 *
 * A raw attention call is one step; a model's layer is its projections, a mixer and one more
 * projection. The caller owns threads and memory and knows only phases and tiles. */
#ifndef ATTN_PROGRAM_H
#define ATTN_PROGRAM_H

#include "attn/arena.h"
#include "attn/mixer.h"

typedef struct attn_program attn_program;

/* The arrays that a program reads and writes, by what they hold. */
typedef enum attn_array {
    ATTN_ARRAY_Q,     /* of a raw call, as attn/mixer.h has them */
    ATTN_ARRAY_K,     /* the same */
    ATTN_ARRAY_V,     /* the same */
    ATTN_ARRAY_INPUT, /* of a model: hidden states (batch, n, hidden) */
    ATTN_ARRAY_OUT,   /* the answer: (batch, heads, n, dv), or (batch, n, hidden) */
    ATTN_ARRAY_SHARED,
    ATTN_ARRAYS
} attn_array;

/* Where they are. All dense; SHARED is ATTN_ALIGN-aligned and attn_program_shared_bytes long. */
typedef struct attn_frame {
    float *data[ATTN_ARRAYS];
    int64_t row; /* of a sequence, at which INPUT and OUT begin: 0, but inside of a program */
} attn_frame;

/* Rows of the answer that are computed once more by exact attention, to see how far off it is. */
typedef struct attn_sampling {
    int rows; /* at most ATTN_SAMPLES_MAX query positions of the whole batch, all heads of each; 0:
                 none */
    uint64_t seed; /* which ones */
} attn_sampling;

enum {
    ATTN_SAMPLES_MAX = 256,
    ATTN_SAMPLES = 64, /* unless the caller wants another number */
};

/* The program of a raw attention call. Refuses as attn_mixer_plan does, or with ATTN_NO_MEMORY; the
 * masks and matrices that `params` points to stay borrowed. */
attn_status attn_program_attend(attn_program **program, const attn_machine *machine,
                                const attn_mixer *mixer, const attn_mix_params *params,
                                const attn_shape *shape, const attn_sampling *sampling,
                                attn_error *error);

/* NULL is fine. */
void attn_program_close(attn_program *program);

int attn_program_phases(const attn_program *program);
attn_phase attn_program_phase(const attn_program *program, int phase);

/* Run one tile. Everything attn/mixer.h says of a mixer's run holds here. */
attn_status attn_program_run(const attn_program *program, const attn_frame *frame, int phase,
                             int64_t tile, attn_arena *scratch);

size_t attn_program_shared_bytes(const attn_program *program);
size_t attn_program_scratch_bytes(const attn_program *program); /* of each worker */

/* Bound on the workspace of `workers` that run it at once. */
size_t attn_program_bytes(const attn_program *program, int workers);

/* Predicted time of phases [from, end) on one core, nothing but tiles. */
double attn_program_remaining_ns(const attn_program *program, int from);

/* Who runs a program. */
typedef struct attn_crew {
    int workers;
    double pace;       /* a tile takes so many times what the plan says */
    double tile_ns;    /* besides, for handing it out */
    double barrier_ns; /* from one phase to the next */
    double wake_ns; /* until the workers that slept have begun, when a phase has tiles for them */
} attn_crew;

/* Predicted time on the wall of a phase, which is spread over the workers as far as it has tiles,
 * unless one alone has done them before the others wake; and of a whole program. */
double attn_phase_ns(const attn_phase *phase, const attn_crew *crew);
double attn_program_ns(const attn_program *program, const attn_crew *crew);

/* Floating-point operations of its linear maps, which are the sgemms a model cannot do without; 0
 * of a raw call. */
double attn_program_flops(const attn_program *program);

/* For the client: what should be known of the answer; "" for nothing. */
const char *attn_program_warning(const attn_program *program);

/* How far the answer is from exact attention. */
typedef struct attn_deviation {
    int64_t rows;       /* sampled; 0: none were */
    double relative_l2; /* |answer - exact| / |exact| over those rows; infinite when exact is 0 and
                           the answer is not */
} attn_deviation;

/* After the last phase. */
attn_deviation attn_program_deviation(const attn_program *program, const attn_frame *frame);

#endif
