/* ln and exp of our own: close to libm's, and the same bits for ever. */
#include "plain_math.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

/* Twelve roundings of terms below 1 beside the larger of 1 and the result. */
static void test_log(void)
{
    for (double x = 0x1p-1022; x < 0x1p1020; x *= 1.37) {
        double expected = log(x), got = attn_plain_log(x);
        double allowed = 2 * DBL_EPSILON * fmax(1, fabs(expected));
        CHECK(fabs(got - expected) <= allowed, "ln %a: %a, expected %a", x, got, expected);
    }
    CHECK(attn_plain_log(1) == 0, "ln 1 is %a", attn_plain_log(1));
    CHECK(fabs(attn_plain_log(0x1p-1074) - log(0x1p-1074)) < 1e-12, "ln of the least double");
}

/* Two roundings of r, fourteen of terms that fall fast from 1, one of the product. */
static void test_exp(void)
{
    for (double x = -700; x <= 700; x += 0.01371) {
        double expected = exp(x), got = attn_plain_exp(x);
        CHECK(fabs(got - expected) <= 4 * DBL_EPSILON * expected, "exp %a: %a, expected %a", x, got,
              expected);
    }
    CHECK(attn_plain_exp(0) == 1, "exp 0 is %a", attn_plain_exp(0));
}

/* Checked to 1e-15 against libm, then written down. */
static void test_fixed_values(void)
{
    static const struct {
        double x, log, exp;
    } fixed[] = {
        {0.001, -0x1.ba18a998fffap+2, 0x1.0041919b7ee34p+0},
        {0.3, -0x1.34378fcbda72p+0, 0x1.599058c8c1a95p+0},
        {2, 0x1.62e42fefa39efp-1, 0x1.d8e64b8d4ddadp+2},
        {16, 0x1.62e42fefa39efp+1, 0x1.0f2ebd0a8002p+23},
        {100, 0x1.26bb1bbb55515p+2, 0x1.3494a9b171bf3p+144},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        double logarithm = attn_plain_log(fixed[i].x), power = attn_plain_exp(fixed[i].x);
        CHECK(logarithm == fixed[i].log, "ln %g: %a, expected %a", fixed[i].x, logarithm,
              fixed[i].log);
        CHECK(power == fixed[i].exp, "exp %g: %a, expected %a", fixed[i].x, power, fixed[i].exp);
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"log", test_log}, {"exp", test_exp}, {"fixed values", test_fixed_values}, {NULL, NULL}};
    return test_main("plain_math", cases);
}
