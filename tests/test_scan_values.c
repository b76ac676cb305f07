/* Mamba's scan and the values that break such kernels, on every instruction set: decay beyond any
 * exponent, what is not a number, denormal numbers; and the layout of what is prepared. */
#include "tests/support/attend.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

/* Sixteen channels of one state, a few positions, everything 1 but what a test sets. */
typedef struct few {
    float x[3 * ATTN_LANES], dt[3 * ATTN_LANES], ones[3], y[3 * ATTN_LANES];
    float a_log[ATTN_LANES];
    float a[ATTN_LANES] __attribute__((aligned(ATTN_ALIGN)));
    float h[ATTN_LANES] __attribute__((aligned(ATTN_ALIGN)));
} few;

static attn_scan few_scan(few *f)
{
    for (int i = 0; i < 3 * ATTN_LANES; i++)
        f->x[i] = f->dt[i] = 1;
    for (int i = 0; i < ATTN_LANES; i++)
        f->a_log[i] = f->h[i] = 1;
    f->ones[0] = f->ones[1] = f->ones[2] = 1;
    return (attn_scan){.count = 3,
                       .channels = ATTN_LANES,
                       .states = 1,
                       .x = f->x,
                       .dt = f->dt,
                       .b = f->ones,
                       .c = f->ones,
                       .y = f->y,
                       .x_stride = ATTN_LANES,
                       .dt_stride = ATTN_LANES,
                       .b_stride = 1,
                       .c_stride = 1,
                       .y_stride = ATTN_LANES,
                       .a = f->a,
                       .h = f->h};
}

/* A state that is forgotten altogether is 0, not NaN; one that never moves stays; also where exp or
 * softplus passes float32's range. */
static void test_extremes(void)
{
    static const struct {
        float dt, a_log, state; /* state: what is left of 1 after a step that adds nothing */
    } extremes[] = {{1e4F, 0, 0},   {20, 6, 0},       {1e30F, 30, 0}, {1e38F, 200, 0},
                    {-200, 300, 1}, {-200, 0, 1},     {0, 300, 0},    {5, -200, 1},
                    {-50, -80, 1},  {INFINITY, 0, 0}, {88, 0, 0},     {-87, 0, 1}};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (size_t e = 0; e < sizeof extremes / sizeof *extremes; e++) {
            few f;
            attn_scan s = few_scan(&f);
            for (int i = 0; i < ATTN_LANES; i++) {
                f.a_log[i] = extremes[e].a_log;
                f.dt[i] = extremes[e].dt;
                f.x[i] = 0;
            }
            s.count = 1;
            attn_scan_prepare(f.a_log, ATTN_LANES, 1, f.a);
            k->scan->scan(&s, 0, ATTN_LANES);
            for (int i = 0; i < ATTN_LANES; i++)
                CHECK(fabsf(f.h[i] - extremes[e].state) < 1e-20F, "%s: dt %g, A_log %g leaves %g",
                      attn_isa_name(k->isa), extremes[e].dt, extremes[e].a_log, f.h[i]);
        }
}

/* What is not a number stays so in its channel, and leaves the others alone. */
static void test_nan(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int euler = 0; euler < 2; euler++)
            for (int in_dt = 0; in_dt < 2; in_dt++) {
                few f;
                attn_scan s = few_scan(&f);
                s.euler = euler;
                (in_dt ? f.dt : f.x)[ATTN_LANES + 5] = NAN;
                attn_scan_prepare(f.a_log, ATTN_LANES, 1, f.a);
                k->scan->scan(&s, 0, ATTN_LANES);
                for (int i = 0; i < 3 * ATTN_LANES; i++)
                    CHECK(!isnan(f.y[i]) == (i % ATTN_LANES != 5 || i < ATTN_LANES),
                          "%s: NaN in %s, position %d, channel %d is %g", attn_isa_name(k->isa),
                          in_dt ? "dt" : "x", i / ATTN_LANES, i % ATTN_LANES, f.y[i]);
            }
}

/* Denormal numbers may count as 0, but only inside: the caller's arithmetic keeps them. */
static void test_denormal(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        few f;
        attn_scan s = few_scan(&f);
        for (int i = 0; i < 3 * ATTN_LANES; i++)
            f.x[i] = 1e-40F;
        memset(f.h, 0, sizeof f.h);
        attn_scan_prepare(f.a_log, ATTN_LANES, 1, f.a);
        k->scan->scan(&s, 0, ATTN_LANES);
        for (int i = 0; i < 3 * ATTN_LANES; i++)
            CHECK(fabsf(f.y[i]) < 1e-30F, "%s: %g of denormal x", attn_isa_name(k->isa), f.y[i]);
        volatile float tiny = 1e-40F;
        CHECK(tiny * 2 > 0, "%s: the thread lost its denormal numbers", attn_isa_name(k->isa));
    }
}

/* After an impulse, nothing but decay: the state ends at 0 and is at no time a denormal number,
 * with which a vector kernel could be made slow from outside. */
static void test_impulse_response(void)
{
    enum {
        RUNS = 1000 /* 0.9^(3 RUNS) is far below the least float */
    };
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        few f;
        attn_scan s = few_scan(&f);
        const float step = logf(expm1f(logf(10.0F / 9))); /* softplus(step) = ln(10/9) */
        for (int i = 0; i < 3 * ATTN_LANES; i++) {
            f.x[i] = 0;
            f.dt[i] = step;
        }
        for (int i = 0; i < ATTN_LANES; i++)
            f.a_log[i] = 0;
        attn_scan_prepare(f.a_log, ATTN_LANES, 1, f.a);
        for (int run = 0; run < RUNS; run++) {
            k->scan->scan(&s, 0, ATTN_LANES);
            for (int i = 0; i < ATTN_LANES && k->isa != ATTN_ISA_SCALAR; i++)
                CHECK(fpclassify(f.h[i]) != FP_SUBNORMAL, "%s: state %g after %d steps",
                      attn_isa_name(k->isa), f.h[i], 3 * (run + 1));
        }
        for (int i = 0; i < ATTN_LANES; i++)
            CHECK(fabsf(f.h[i]) < 1e-30F, "%s: %g is left", attn_isa_name(k->isa), f.h[i]);
    }
}

static void test_prepare(void)
{
    enum {
        CHANNELS = 18,
        STATES = 3,
        FLOATS = 2 * ATTN_LANES * STATES
    };
    float a_log[CHANNELS * STATES], a[FLOATS];
    for (int i = 0; i < CHANNELS * STATES; i++)
        a_log[i] = (float)i / 10;
    CHECK(attn_scan_floats(CHANNELS, STATES) == FLOATS, "%zu floats, expected %d",
          attn_scan_floats(CHANNELS, STATES), FLOATS);
    attn_scan_prepare(a_log, CHANNELS, STATES, a);
    for (int i = 0; i < FLOATS; i++) {
        const int c = i / ATTN_LANES / STATES * ATTN_LANES + i % ATTN_LANES;
        const int n = i / ATTN_LANES % STATES;
        const double wanted = c < CHANNELS ? -exp(a_log[c * STATES + n]) * M_LOG2E : 0;
        CHECK(fabs(a[i] - wanted) <= 0x1p-23 * fabs(wanted), "element %d is %g, expected %g", i,
              a[i], wanted);
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"prepare", test_prepare},
        {"extremes", test_extremes},
        {"nan", test_nan},
        {"denormal", test_denormal},
        {"impulse response", test_impulse_response},
        {NULL, NULL},
    };
    return test_main("scan_values", cases);
}
