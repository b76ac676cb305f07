/* The only file that calls LAPACK. No header of Debian's OpenBLAS declares these routines, so they
 * are declared here as gfortran calls them: everything by address, and behind the arguments the
 * lengths of the strings among them.
 *
 * Fortran sees a row-major matrix transposed, which has the same singular values. The loop over
 * panels is that of LAPACK's dgebrd (LAPACK Users' Guide, section on the singular value
 * decomposition), without what only singular vectors would need. */
#include "attn/lapack.h"

extern void dlabrd_(const int *rows, const int *columns, const int *panel, double *a,
                    const int *stride, double *diagonal, double *beside, double *tau_left,
                    double *tau_right, double *x, const int *x_stride, double *y,
                    const int *y_stride);
extern void dgebd2_(const int *rows, const int *columns, double *a, const int *stride,
                    double *diagonal, double *beside, double *tau_left, double *tau_right,
                    double *work, int *info);
extern void dbdsqr_(const char *side, const int *count, const int *right, const int *left,
                    const int *other, double *diagonal, double *beside, double *vt,
                    const int *vt_stride, double *u, const int *u_stride, double *c,
                    const int *c_stride, double *work, int *info, size_t side_length);
extern void dgemm_(const char *a_form, const char *b_form, const int *rows, const int *columns,
                   const int *depth, const double *alpha, const double *a, const int *a_stride,
                   const double *b, const int *b_stride, const double *beta, double *c,
                   const int *c_stride, size_t a_form_length, size_t b_form_length);

enum {
    ITERATION_WORK = 4, /* doubles a singular value, of dbdsqr */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Doubles that dgebd2 and dbdsqr work in. */
static int64_t rest_doubles(int64_t rows, int64_t columns)
{
    return larger(larger(rows, columns), ITERATION_WORK * smaller(rows, columns));
}

size_t attn_lapack_work_doubles(int64_t rows, int64_t columns, int64_t panel)
{
    return (size_t)(panel * (rows + columns) + 2 * smaller(rows, columns) +
                    rest_doubles(rows, columns));
}

int64_t attn_lapack_steps(int64_t rows, int64_t columns, int64_t panel)
{
    return (smaller(rows, columns) + panel - 1) / panel;
}

/* c -= a b or a b', (rows, depth) times (depth, columns), all inside matrices of those strides. */
static void subtract_product(int rows, int columns, int depth, const double *a, int a_stride,
                             const char *b_form, const double *b, int b_stride, double *c,
                             int c_stride)
{
    const double minus_one = -1, one = 1;
    dgemm_("N", b_form, &rows, &columns, &depth, &minus_one, a, &a_stride, b, &b_stride, &one, c,
           &c_stride, 1, 1);
}

void attn_lapack_reduce(const attn_reduction *r, int64_t step)
{
    const int stride = (int)r->columns;
    int64_t count = smaller(r->rows, r->columns), from = step * r->panel;
    double *x = r->work, *y = x + r->panel * r->columns;
    double *tau_left = y + r->panel * r->rows, *tau_right = tau_left + count;
    double *a = r->matrix + from * stride + from;
    int high = (int)(r->columns - from), wide = (int)(r->rows - from), panel = (int)r->panel, info;
    if (from + panel >= count) {
        dgebd2_(&high, &wide, a, &stride, r->values + from, r->beside + from, tau_left, tau_right,
                tau_right + count, &info);
        return;
    }
    dlabrd_(&high, &wide, &panel, a, &stride, r->values + from, r->beside + from, tau_left,
            tau_right, x, &high, y, &wide);
    double *rest = a + (ptrdiff_t)panel * stride + panel;
    subtract_product(high - panel, wide - panel, panel, a + panel, stride, "T", y + panel, wide,
                     rest, stride);
    subtract_product(high - panel, wide - panel, panel, x + panel, high, "N",
                     a + (ptrdiff_t)panel * stride, stride, rest, stride);
}

attn_status attn_lapack_values(const attn_reduction *r)
{
    const int count = (int)smaller(r->rows, r->columns), none = 0, one = 1;
    const char *side = r->columns >= r->rows ? "U" : "L";
    double unused;
    int info;
    dbdsqr_(side, &count, &none, &none, &none, r->values, r->beside, &unused, &one, &unused, &one,
            &unused, &one, r->work, &info, 1);
    return info == 0 ? ATTN_OK : ATTN_INTERNAL;
}
