/* The layouts that scan.h describes: channels side by side, for every instruction set the same. */
#include "kernels/kernels.h"

#include <float.h>
#include <math.h>

void attn_conv_prepare(const float *weight, ptrdiff_t channels, int width, float *taps)
{
    for (int k = 0; k < width; k++)
        for (ptrdiff_t c = 0; c < channels; c++)
            taps[k * channels + c] = weight[c * width + k];
}

static ptrdiff_t round_up(ptrdiff_t channels)
{
    return (channels + ATTN_LANES - 1) / ATTN_LANES * ATTN_LANES;
}

size_t attn_scan_floats(ptrdiff_t channels, int states)
{
    return (size_t)round_up(channels) * (size_t)states;
}

void attn_scan_prepare(const float *a_log, ptrdiff_t channels, int states, float *a)
{
    const double log2_e = 1.4426950408889634;
    for (ptrdiff_t c = 0; c < round_up(channels); c++)
        for (int n = 0; n < states; n++) {
            double decay = c < channels ? exp((double)a_log[c * states + n]) * log2_e : 0;
            /* An infinite one would make NaN of a step of 0. */
            float bounded = decay > FLT_MAX ? FLT_MAX : (float)decay;
            a[(c / ATTN_LANES * states + n) * ATTN_LANES + c % ATTN_LANES] = -bounded;
        }
}
