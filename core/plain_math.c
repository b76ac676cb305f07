/* Series on a short interval, after the exponent was split off. */
#include "plain_math.h"

#include <math.h>

static const double ln2 = 0.69314718055994530942;

/* x = m 2^e with m near 1, and ln m = 2 atanh((m - 1) / (m + 1)). */
double attn_plain_log(double x)
{
    const double sqrt_half = 0.70710678118654752440;
    int exponent;
    double m = frexp(x, &exponent);
    if (m < sqrt_half) {
        m *= 2;
        exponent--;
    }
    double z = (m - 1) / (m + 1), square = z * z, power = z, sum = 0;
    for (int odd = 1; odd <= 25; odd += 2, power *= square)
        sum += power / odd;
    return exponent * ln2 + 2 * sum;
}

/* x = e ln 2 + r with |r| <= ln 2 / 2, and the Taylor series of exp r. */
double attn_plain_exp(double x)
{
    /* ln 2 in two parts, the first short enough that its products with e are exact. */
    const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    double exponent = rint(x / ln2);
    double r = (x - exponent * ln2_high) - exponent * ln2_low, term = 1, sum = 1;
    for (int n = 1; n <= 14; n++) {
        term *= r / n;
        sum += term;
    }
    return ldexp(sum, (int)exponent);
}
