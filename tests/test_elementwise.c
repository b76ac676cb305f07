/* Activation functions on every instruction set, against long double, and widening, against the
 * door's.
 */
#include "tests/support/attend.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    MOST = 67 /* of a row: more than four vectors, and a rest */
};

typedef struct activation {
    const char *name;
    long double (*expected)(long double x);
} activation;

static long double gelu(long double x)
{
    return x / 2 * erfcl(-x * M_SQRT1_2);
}

static long double silu(long double x)
{
    return x / (1 + expl(-x));
}

static const activation activations[] = {{"gelu", gelu}, {"silu", silu}};
enum {
    ACTIVATIONS = sizeof activations / sizeof *activations
};

static void run(const attn_kernels *k, int which, float *x, int count)
{
    if (which == 0)
        k->elementwise->gelu(x, count);
    else
        k->elementwise->silu(x, count);
}

/* The exponent, x^2 / 2 or x, is rounded to float32 before its exponential; the other factors are
 * worth a few roundings. An exponential below float32's normal numbers is 0. */
static long double bound(int which, long double x, long double expected)
{
    const long double exponent = which == 0 ? x * x / 2 : fabsl(x), roundings = 8;
    return (roundings + 2 * exponent) * FLT_EPSILON / 2 * fabsl(expected) +
           (1 + fabsl(x)) * FLT_MIN;
}

static void check(const attn_kernels *k, int which, const float *x, int count)
{
    float y[MOST];
    memcpy(y, x, (size_t)count * sizeof *y);
    run(k, which, y, count);
    for (int i = 0; i < count; i++) {
        long double expected = activations[which].expected(x[i]);
        long double error = fabsl(y[i] - expected), most = bound(which, x[i], expected);
        CHECK(error <= most, "%s %s(%a) is %a, expected %La: off by %La, at most %La",
              attn_isa_name(k->isa), activations[which].name, (double)x[i], (double)y[i], expected,
              error, most);
    }
}

static void test_values(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int which = 0; which < ACTIVATIONS; which++)
            for (float from = -140; from < 140; from += 0.37F) {
                float x[MOST];
                for (int i = 0; i < MOST; i++)
                    x[i] = from + (float)i * 0.0061F;
                check(k, which, x, MOST);
            }
}

static void test_extremes(void)
{
    static const float x[] = {0,        -0.0F,   FLT_MIN, -FLT_MIN, 1e-40F,   -1e-40F,
                              FLT_MAX,  -1e-20F, 1e-20F,  -1e4F,    1e4F,     -13.2F,
                              -13.265F, -13.27F, -13.3F,  -16,      -87.336F, -88.8F};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int which = 0; which < ACTIVATIONS; which++)
            check(k, which, x, sizeof x / sizeof *x);
}

static void test_not_finite(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int which = 0; which < ACTIVATIONS; which++) {
            float x[] = {NAN, INFINITY, -INFINITY, 1};
            run(k, which, x, 4);
            CHECK(isnan(x[0]) && x[1] == INFINITY && !(x[2] < 0 || x[2] > 0) && isfinite(x[3]),
                  "%s %s of NaN, infinity, minus infinity and 1 is %g, %g, %g, %g",
                  attn_isa_name(k->isa), activations[which].name, (double)x[0], (double)x[1],
                  (double)x[2], (double)x[3]);
        }
}

/* Every count from every offset: the same bits wherever a number lies, and nothing beside them. */
static void test_places(void)
{
    float x[MOST];
    for (int i = 0; i < MOST; i++)
        x[i] = sinf((float)(i * i)) * 5;
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int which = 0; which < ACTIVATIONS; which++)
            for (int from = 0; from < MOST; from++)
                for (int end = from; end <= MOST; end++) {
                    float whole[MOST], part[MOST];
                    memcpy(whole, x, sizeof x);
                    memcpy(part, x, sizeof x);
                    run(k, which, whole, MOST);
                    run(k, which, part + from, end - from);
                    memcpy(whole, x, (size_t)from * sizeof *x);
                    memcpy(whole + end, x + end, (size_t)(MOST - end) * sizeof *x);
                    CHECK(memcmp(whole, part, sizeof x) == 0, "%s %s of [%d, %d)",
                          attn_isa_name(k->isa), activations[which].name, from, end);
                }
}

/* Every pattern of bits but signalling NaN, which a vector makes quiet; and every count from an odd
 * address. */
static void test_widening(void)
{
    enum {
        PATTERNS = 1 << 16
    };
    static unsigned char from[2 * PATTERNS + 1];
    static float expected[PATTERNS], found[PATTERNS + 1];
    static const attn_dtype dtypes[] = {ATTN_FP16, ATTN_BF16};
    for (int i = 0; i < PATTERNS; i++) {
        from[2 * i + 1] = (unsigned char)i;
        from[2 * i + 2] = (unsigned char)(i >> 8);
    }
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int d = 0; d < 2; d++) {
            attn_dtype_to_float(dtypes[d], from + 1, PATTERNS, expected);
            k->elementwise->widen(dtypes[d], from + 1, PATTERNS, found);
            for (int i = 0; i < PATTERNS; i++)
                CHECK(memcmp(&found[i], &expected[i], sizeof *found) == 0 ||
                          (isnan(found[i]) && isnan(expected[i])),
                      "%s %s of bits %04x is %a, expected %a", attn_isa_name(k->isa),
                      attn_dtype_name(dtypes[d]), (unsigned)i, (double)found[i],
                      (double)expected[i]);
            for (size_t count = 0; count < MOST; count++) {
                found[count] = -1;
                k->elementwise->widen(dtypes[d], from + 1, count, found);
                CHECK(memcmp(found, expected, count * sizeof *found) == 0 && found[count] == -1,
                      "%s %s of %zu numbers", attn_isa_name(k->isa), attn_dtype_name(dtypes[d]),
                      count);
            }
        }
}

int main(void)
{
    static const test_case cases[] = {{"values", test_values},         {"extremes", test_extremes},
                                      {"not finite", test_not_finite}, {"places", test_places},
                                      {"widening", test_widening},     {NULL, NULL}};
    return test_main("elementwise", cases);
}
