/* ln and exp out of IEEE additions, multiplications and divisions only, so that they give the same
 * bits on every machine, which libm does not promise (their files are compiled without
 * contraction). For numbers that must be repeatable, not for speed. */
#ifndef ATTN_PLAIN_MATH_H
#define ATTN_PLAIN_MATH_H

/* Natural logarithm of a finite x > 0, to about 4e-16 of the larger of 1 and the result. */
double attn_plain_log(double x);

/* e^x for -700 <= x <= 700, to about 9e-16 of it. */
double attn_plain_exp(double x);

#endif
