/* Random directions, a block of d at a time: independent Gaussians, or orthogonal ones (Choromanski
 * et al. 2021, section 3.4) made by Gram-Schmidt, run twice, which is as good as Householder's. */
#include "mixers/directions.h"

#include "random.h"

#include <math.h>

enum {
    BASIS_STREAM = 2,
    LENGTH_STREAM = 3,
};

static double dot(const double *a, const double *b, int64_t d)
{
    double sum = 0;
    for (int64_t c = 0; c < d; c++)
        sum += a[c] * b[c];
    return sum;
}

static void orthonormalise(double *basis, int64_t row, int64_t d)
{
    double *x = basis + row * d;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t r = 0; r < row; r++) {
            double share = dot(x, basis + r * d, d);
            for (int64_t c = 0; c < d; c++)
                x[c] -= share * basis[r * d + c];
        }
    double length = sqrt(dot(x, x, d));
    for (int64_t c = 0; c < d; c++)
        x[c] /= length;
}

/* The length of a Gaussian vector of its own: chi(d) distributed. */
static double chi(uint64_t seed, int64_t direction, int64_t d)
{
    double square = 0;
    for (int64_t c = 0; c < d; c++) {
        double x = attn_random_normal(seed, LENGTH_STREAM, (uint64_t)(direction * d + c));
        square += x * x;
    }
    return sqrt(square);
}

void attn_directions_draw(const attn_mix_params *p, int64_t d, int64_t first, double *basis,
                          float *omega)
{
    int64_t left = p->features - first, rows = left < d ? left : d;
    for (int64_t r = 0; r < rows; r++) {
        int64_t direction = first + r;
        double *x = basis + r * d, length = 1;
        for (int64_t c = 0; c < d; c++)
            x[c] = attn_random_normal(p->seed, BASIS_STREAM, (uint64_t)(direction * d + c));
        if (p->orthogonal) {
            orthonormalise(basis, r, d);
            length = p->norm == ATTN_NORM_CHI ? chi(p->seed, direction, d) : sqrt((double)d);
        }
        for (int64_t c = 0; c < d; c++)
            omega[direction * d + c] = (float)(length * x[c]);
    }
}
