/* One random convolution and one random scan, in buffers that show where a kernel strays: strides
 * are wider than the columns and filled up with NaN, answers are framed by guards, and every input
 * ends where its allocation ends. Where the mask hides a position, the convolution's x is NaN, and
 * the scan's x, B and C are 0, as a block makes them. */
#ifndef TESTS_SCAN_H
#define TESTS_SCAN_H

#include "kernels/kernels.h"
#include "tests/support/random.h"

typedef enum scan_mask {
    SCAN_UNMASKED,
    SCAN_VISIBLE, /* a mask that hides nothing */
    SCAN_LEFT,    /* padding in front */
    SCAN_RIGHT,   /* padding behind */
    SCAN_HOLES,   /* every third position, and both ends */
    SCAN_HIDDEN,  /* a mask that hides everything */
    SCAN_MASKS    /* how many there are */
} scan_mask;

typedef struct scan_spec {
    int count, channels, states, width;
    bool euler;
    bool biased; /* both biases, the skip and the gate are there */
    float step;  /* what dt is around before its softplus: about 0 decays strongly, -7 weakly */
    float decay; /* what A_log is around */
    scan_mask mask;
    uint64_t seed;
} scan_spec;

typedef struct scan_case {
    scan_spec spec;
    attn_conv conv; /* of which count, pointers and the like may be changed before a run */
    attn_scan scan;
    float *weight, *a_log; /* (channels, width), (channels, states), as a checkpoint has them */
    uint8_t *mask;         /* or NULL */
    void *owned[24];
    int owned_count;
} scan_case;

/* Make the case, its history and state filled with what a former chunk may have left; scan_close
 * frees it. */
void scan_open(scan_case *c, const scan_spec *spec);
void scan_close(scan_case *c);

/* ATTN_ALIGN-aligned floats, undefined, that scan_close frees. */
float *scan_own(scan_case *c, size_t count);

/* Does the mask, if any, leave position t? */
bool scan_sees(const scan_case *c, ptrdiff_t t);

/* Floats of the history and of the state. */
size_t scan_history_floats(const scan_case *c);
size_t scan_state_floats(const scan_case *c);

/* The convolution and the scan of all positions, in chunks of `chunk` positions and ranges of
 * `range` channels, a multiple of ATTN_LANES. */
void scan_run(scan_case *c, const attn_scan_kernels *kernels, ptrdiff_t chunk, ptrdiff_t range);

/* Did a run write beside the answers? */
bool scan_strayed(const scan_case *c);

/* What an answer has to be, by the formulas of kernels/scan.h in double, a position after the
 * other, and how far float32 may be off: every rounding, carried through the recurrence. */
typedef struct scan_answer {
    double *value, *bound; /* (count, channels) */
} scan_answer;

/* Of the case as it stands, before a run; close it. */
scan_answer scan_expect_conv(const scan_case *c);
scan_answer scan_expect(const scan_case *c);
void scan_answer_close(scan_answer *answer);

/* Every element within its bound and, since bounds grow with the recurrence, within 1e-4 of the
 * largest. Rows of `got` lie `stride` apart. */
void scan_check(const scan_case *c, attn_isa isa, const char *what, const float *got,
                ptrdiff_t stride, const scan_answer *wanted);

/* A description for messages, in static storage that the next call overwrites. */
const char *scan_describe(const scan_case *c, attn_isa isa);

#endif
