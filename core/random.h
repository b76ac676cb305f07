/* Numbers drawn by position: element i of a stream depends on the seed, the stream and i alone, so
 * that tiles draw their own parts in any order and a longer draw begins with a shorter one.
 *
 * Only IEEE additions, multiplications, divisions and square roots are used (this file is compiled
 * without contraction), so the same seed gives the same numbers on every machine. */
#ifndef ATTN_RANDOM_H
#define ATTN_RANDOM_H

#include <stdint.h>

/* 64 even bits: element `index` of stream `stream`. */
uint64_t attn_random_bits(uint64_t seed, uint64_t stream, uint64_t index);

/* Element `index` of stream `stream`: standard normal. */
double attn_random_normal(uint64_t seed, uint64_t stream, uint64_t index);

#endif
