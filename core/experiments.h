/* Small programs that tell the rates apart; calibrate.c runs them. */
#ifndef CORE_EXPERIMENTS_H
#define CORE_EXPERIMENTS_H

#include "model/mamba.h"

enum {
    ATTN_EXPERIMENT_FLOATS = 1 << 18 /* at most, of an array that a program reads or writes */
};

/* What programs are built from. */
typedef struct attn_lab {
    const float *weights; /* (ATTN_EXPERIMENT_FLOATS), borrowed */
    attn_mamba mamba;     /* made of them */
} attn_lab;

typedef struct attn_experiment attn_experiment;
struct attn_experiment {
    size_t rate; /* that it is for: offset in attn_rates */
    int phase;   /* of the program, in which the rate weighs most */
    attn_status (*build)(const attn_experiment *, const attn_lab *, const attn_machine *,
                         attn_program **, attn_error *);
    const char *mixer; /* of a raw call */
    attn_shape shape;  /* of a product: n rows of d inputs to m outputs */
    int64_t heads;     /* of a raw call; 0: 1 */
    bool causal;
    attn_projection projection;
    int64_t k, features;
    bool draws;       /* its directions */
    attn_dtype dtype; /* of a product's matrix */
    bool activates;
    attn_activation activation;
};

extern const attn_experiment attn_experiments[]; /* one a rate, in the order of rates.def */
extern const int attn_experiment_count;

/* Floats of `scan`, ATTN_ALIGN-aligned, which the lab fills and keeps borrowed. */
size_t attn_lab_scan_floats(void);
void attn_lab_init(attn_lab *lab, const float *weights, float *scan);

#endif
