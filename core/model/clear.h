/* The step that makes padding rows 0. */
#ifndef CORE_MODEL_CLEAR_H
#define CORE_MODEL_CLEAR_H

#include "program/step.h"

/* Append: rows of `x` (batch, n, columns) at or beyond their length become 0. The lengths are
 * borrowed. */
attn_status attn_clear_add(attn_program *program, const attn_rates *rates, const int64_t *lengths,
                           attn_region x, int64_t batch, int64_t n, int64_t columns,
                           attn_error *error);

#endif
