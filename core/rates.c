/* Rates that nobody measured, and the one cost that several plans share. */
#include "attn/rates.h"

attn_rates attn_rates_default(void)
{
    return (attn_rates){
#define RATE(member, fallback, what) .member = fallback,
#include "attn/rates.def"
#undef RATE
    };
}

double attn_product_ns(const attn_rates *rates, double rows, double columns, double depth)
{
    return columns * depth * (2 * rows * rates->product_flop_ns + rates->product_weight_ns);
}
