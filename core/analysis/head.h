/* The stages of a head's analysis, as analysis.c runs them, and where each finds its memory. */
#ifndef ANALYSIS_HEAD_H
#define ANALYSIS_HEAD_H

#include "attn/analysis.h"
#include "attn/lapack.h"

/* A head's workspace, cut up. */
typedef struct attn_head_space {
    double *keys;          /* (d, m): k transposed and widened */
    double *matrix;        /* (n, m): the scores, then A; both are destroyed by their reduction */
    double *beside, *work; /* attn_reduction's */
    float *identity;       /* (m, m): v for the estimate; only if there is one, like the rest */
    float *estimate;       /* (n, m) */
    void *shared;          /* the estimate's plan's */
} attn_head_space;

/* Bytes of it; with `base`, also where everything lies. */
size_t attn_head_lay_out(const attn_analysis *analysis, void *base, attn_head_space *space);

/* One step of a head: `step` counts within its stage. */
typedef struct attn_head_step {
    const attn_analysis *analysis;
    const attn_analysis_io *io;
    attn_head_space space;
    int64_t step;
    attn_arena *scratch;
} attn_head_step;

typedef attn_status attn_head_stage(const attn_head_step *at);

attn_head_stage attn_head_keys, attn_head_scores, attn_head_attention, attn_head_estimate,
    attn_head_compare, attn_head_reduce, attn_head_score_values, attn_head_values;

/* Ranks and energies out of report->singular_values. */
void attn_head_spectrum(const attn_analysis *analysis, attn_head_report *report);

#endif
