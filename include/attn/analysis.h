/* How low the rank of attention is: figures of one head's matrix A = softmax(scale Q K^T), and a
 * sweep of every backend's parameters to be measured on the caller's own tensors.
 *
 * Only the scores scale Q K^T are of rank <= d; the softmax of them need not be, and of Gaussian q
 * and k is not. So both spectra are computed: the scores' before any mask, A's after it. A row that
 * sees no key is 0. All in double, but for the estimate, which is the performer mixer's own answer
 * to v = I.
 *
 * A head is a chain of steps of about a millisecond each, so that others can be served between
 * two. Steps of different heads may run at the same time. Nothing is allocated. */
#ifndef ATTN_ANALYSIS_H
#define ATTN_ANALYSIS_H

#include "attn/mixer.h"

enum {
    ATTN_ENERGY_LEVELS = 3,
    ATTN_ANALYSIS_STAGES = 9,
    ATTN_MAX_WINDOWS = 32, /* a caller may ask about */
};

/* 0.9, 0.95 and 0.99 of the energy, the sum of all squared singular values. */
extern const double attn_energy_levels[ATTN_ENERGY_LEVELS];

/* What is known about one head in the end; count = min(n, m). */
typedef struct attn_head_report {
    double *singular_values;       /* (count) of A, largest first; lent by the caller, written */
    double *score_singular_values; /* (count) of scale Q K^T without a mask; the same */
    double *cumulative_energy;     /* (count) part of the energy in the first 1, 2, ...; the same */
    int64_t k_energy[ATTN_ENERGY_LEVELS]; /* how many hold that part of the energy */
    int64_t rank_bound;                   /* min(n, m, d): of the scores, by their factors */
    int64_t numerical_rank;               /* of A: values above the largest * max(n, m) * 1.2e-7 */
    double stable_rank;                   /* of A: sum of squares / largest square */
    double entropy_mean, entropy_min, entropy_max; /* nats, of the rows that see a key */
    /* The part of the attention that lies inside each window: |j - (i + m - n)| <= w, or with a
     * causal mask the w keys up to the query's own, as params.window means it. */
    double window_mass[ATTN_MAX_WINDOWS];
    double relative_frobenius; /* |estimate - A| / |A|; NaN: no estimate, or it overflows */
} attn_head_report;

/* Everything that is decided before the first number is touched, the same for all heads. */
typedef struct attn_analysis {
    attn_shape shape;       /* of one head: batch, heads and kv_heads are 1 */
    attn_mix_params params; /* scale, causal, and what performer reads */
    const int64_t *windows; /* borrowed */
    int window_count;
    attn_plan estimate;   /* performer's, for v = I; unless */
    char why_not[160];    /* it cannot be, and this says why */
    int64_t block, panel; /* rows, and rows and columns, that a step takes */
    int64_t stage_steps[ATTN_ANALYSIS_STAGES];
    double stage_ns[ATTN_ANALYSIS_STAGES]; /* predicted, a step */
    int64_t steps;                         /* of a head, the sum */
    size_t workspace_bytes;                /* of a head, while its steps run */
    size_t scratch_bytes;                  /* of a step */
} attn_analysis;

typedef struct attn_analysis_io {
    const float *q, *k; /* (n, d) and (m, d), finite; rows lie so many floats apart: */
    ptrdiff_t q_row, k_row;
    void *workspace;          /* workspace_bytes, ATTN_ALIGN-aligned, kept between steps */
    attn_head_report *report; /* complete after the last step */
} attn_analysis_io;

/* Plan for heads of that n, m and d; of `params` the masks' arrays are refused. `windows` are all
 * >= 1 and stay borrowed. ATTN_INVALID and ATTN_UNSUPPORTED with a sentence. */
attn_status attn_analysis_plan(attn_analysis *analysis, const attn_machine *machine,
                               const attn_mix_params *params, const attn_shape *shape,
                               const int64_t *windows, int window_count, attn_error *error);

/* Predicted time of a head on one core, and of its step 0 <= step < steps. */
double attn_analysis_ns(const attn_analysis *analysis);
double attn_analysis_step_ns(const attn_analysis *analysis, int64_t step);

/* Run step 0, 1, 2, ... of a head, each once and in order. */
attn_status attn_analysis_run(const attn_analysis *analysis, const attn_analysis_io *io,
                              int64_t step, attn_arena *scratch);

/* The softmax kernel of one query and key, exp(scale q.k). */
double attn_softmax_kernel(const float *q, const float *k, int64_t d, double scale);

/* Its estimate by the given (features, d) directions (Choromanski et al. 2021, lemma 1, whose
 * exponents of the norms are negative):
 *   mean over w of exp(w.q' - |q'|^2 / 2) exp(w.k' - |k'|^2 / 2),   x' = x sqrt(scale), scale > 0
 */
double attn_softmax_kernel_estimate(const float *q, const float *k, int64_t d, double scale,
                                    const float *omega, int64_t features);

/* A backend with parameters to measure against exact attention. */
typedef enum attn_varied {
    ATTN_VARIED_NOTHING,
    ATTN_VARIED_WINDOW,
    ATTN_VARIED_STRIDE,
    ATTN_VARIED_K,
    ATTN_VARIED_FEATURES,
} attn_varied;

typedef struct attn_trial {
    const attn_mixer *mixer;
    attn_varied varied; /* the parameter that the sweep set */
    attn_mix_params params;
    double
        relative_l2; /* the caller's to fill: |answer - exact| / |exact|, NaN when there is none */
    double predicted_ms; /* the caller's */
} attn_trial;

enum {
    ATTN_MAX_TRIALS = 256
};

/* Every backend, exact first, its parameter doubling as far as it makes a difference for m keys,
 * and with the values of `windows` and `params` among them, in rising order. Returns how many.
 * Some may not be possible: plan them. */
int attn_sweep(const attn_mix_params *params, const attn_shape *shape, const int64_t *windows,
               int window_count, attn_trial trials[ATTN_MAX_TRIALS]);

/* Order by the best error for the cost: first those that no other beats in both, from the cheapest
 * to the most exact, so that the first whose error is small enough is the cheapest that gets
 * there; then the rest, the cheapest first. */
void attn_sweep_order(attn_trial *trials, int count);

#endif
