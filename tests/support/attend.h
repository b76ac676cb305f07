/* Run a mixer's whole plan on one thread, in workspace not a byte larger than the plan asks for. */
#ifndef TESTS_ATTEND_H
#define TESTS_ATTEND_H

#include "attn/mixer.h"
#include "kernels/kernels.h"

typedef enum attend_order {
    ATTEND_FORWARD,
    ATTEND_BACKWARD,
    ATTEND_SHUFFLED,
    ATTEND_ORDERS /* how many there are */
} attend_order;

/* The order of a phase's tiles; free() it. NULL when there is no memory. */
int64_t *attend_order_tiles(int64_t tiles, attend_order order);

typedef struct attend_call {
    const char *mixer; /* NULL: exact */
    attn_isa isa;
    int tile_rows;      /* cut the rows into such tiles whatever the plan says; 0: as it says */
    int key_ranges;     /* as attend_machine_for_ranges has it */
    attend_order order; /* of the tiles */
    attn_shape shape;
    attn_mask mask;
    float scale; /* 0: the default */
    const attn_mix_params
        *params; /* whose scale and mask give way to those above; NULL: defaults */
    attn_view q, k, v, out;
} attend_call;

typedef struct attend_result {
    attn_plan plan;
    uint64_t scores;   /* computed by all tiles */
    size_t peak_bytes; /* most scratch that a tile used, and the shared workspace */
} attend_result;

/* Plan and run. Fails as the plan or the first failing tile does. */
attn_status attend_run(const attend_call *call, attend_result *result, attn_error *error);

/* The next kernel table that this CPU can run, scalar first; NULL begins and ends. */
const attn_kernels *kernels_after(const attn_kernels *kernels);

/* A machine with that instruction set which nobody measured: plans come out the same everywhere. */
attn_machine attend_machine(attn_isa isa, double flops_per_ns);

/* The same, for tiles so small that a panel of queries needs `ranges` of them, or nearly so many,
 * to see all keys; 0: as large as the kernels say. */
attn_machine attend_machine_for_ranges(attn_isa isa, const attn_shape *shape, int ranges);

/* Dense arrays for a shape, standard normal from a seed; the answer starts as NaN. */
typedef struct attend_arrays {
    float *q, *k, *v, *out;
    size_t out_count; /* floats in out */
} attend_arrays;

attend_arrays attend_arrays_open(const attn_shape *shape, uint64_t seed);
void attend_arrays_close(attend_arrays *arrays);

/* The call that works on the arrays, by the exact mixer, with nothing hidden. */
attend_call attend_dense(const attn_shape *shape, const attend_arrays *arrays, attn_isa isa);

/* May query i of batch row b see key j? Stated anew from the header of attn/plan.h. */
bool attend_sees(const attn_shape *shape, const attn_mask *mask, int64_t b, int64_t i, int64_t j);

/* Query-key pairs that the mask leaves, over all heads. */
uint64_t attend_visible_pairs(const attn_shape *shape, const attn_mask *mask);

#endif
