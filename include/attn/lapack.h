/* The door to LAPACK, which comes with Debian's OpenBLAS: the singular values of a matrix.
 *
 * dgesdd would hold its thread for a tenth of a second at 512 x 512. Its first part, the reduction
 * to bidiagonal form by Householder reflections (Golub and Kahan 1965), is nearly all of the work
 * and goes panel by panel; here the caller asks for one panel at a time and may do other things
 * between two of them. */
#ifndef ATTN_LAPACK_H
#define ATTN_LAPACK_H

#include "attn/status.h"

#include <stddef.h>
#include <stdint.h>

/* One matrix on its way to its singular values. All memory is the caller's. */
typedef struct attn_reduction {
    int64_t rows, columns; /* >= 1, below 2^31 */
    int64_t panel;         /* rows and columns that a step reduces, >= 1 */
    double *matrix;        /* (rows, columns), dense, finite; destroyed */
    double *values;        /* (min(rows, columns)), written */
    double *beside;        /* (min(rows, columns)), written: the bidiagonal's second diagonal */
    double *work;          /* attn_lapack_work_doubles() of them */
} attn_reduction;

size_t attn_lapack_work_doubles(int64_t rows, int64_t columns, int64_t panel);

/* How many steps there are. */
int64_t attn_lapack_steps(int64_t rows, int64_t columns, int64_t panel);

/* Step 0, 1, 2, ..., each once and in order. */
void attn_lapack_reduce(const attn_reduction *reduction, int64_t step);

/* After the last step: the singular values, largest first, in `values`. ATTN_INTERNAL when the
 * iteration does not converge, which finite numbers do not bring about. */
attn_status attn_lapack_values(const attn_reduction *reduction);

#endif
