/* What a core does how fast: the few measured figures that predicted times are made of
 * (rates.def). They decide nothing but predictions; tile shapes, and so an answer's bits, never
 * depend on them. */
#ifndef ATTN_RATES_H
#define ATTN_RATES_H

typedef struct attn_rates {
#define RATE(member, fallback, what) double member;
#include "attn/rates.def"
#undef RATE
} attn_rates;

/* Those of a machine that nobody measured. */
attn_rates attn_rates_default(void);

/* Predicted time of an OpenBLAS product of (rows, depth) by (depth, columns). */
double attn_product_ns(const attn_rates *rates, double rows, double columns, double depth);

#endif
