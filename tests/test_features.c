/* Performer's feature kernels of every instruction set against the scalar ones, from the same state
 * each time: padded sizes, hidden keys, huge exponents and NaN. */
#include "kernels/kernels.h"
#include "tests/support/attend.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* vf_exp2 is off by 1.7e-7 of itself and exp2f by less than 6e-8. */
static const double exp_bound = 2.3e-7;
/* What is below 2^-126 may be rounded to 0. */
static const double flushed = 0x1p-126;

typedef enum hiding {
    HIDE_NONE,
    HIDE_SOME, /* every third key, the first among them */
    HIDE_ALL,
    HIDINGS
} hiding;

typedef struct spec {
    int features, columns, rows; /* of which features - 3 and columns - 1 are not padding */
    float gain;                  /* standard deviation of exponents */
    hiding hiding;
} spec;

/* Arrays of one run; each ends where its allocation ends. */
typedef struct fixture {
    attn_feature_sums sums;
    float *t, *u, *shift, *keep, *v, *out;
    attn_row_state *state;
} fixture;

static float *floats(int count)
{
    void *memory = NULL;
    if (posix_memalign(&memory, ATTN_ALIGN, (size_t)count * sizeof(float)) != 0)
        abort();
    return memory;
}

static fixture open_fixture(const spec *x)
{
    fixture a = {.sums = {.features = x->features,
                          .columns = x->columns,
                          .maximum = floats(x->features),
                          .mass = floats(x->features),
                          .values = floats(x->features * x->columns)},
                 .t = floats(x->rows * x->features),
                 .u = floats(x->rows * x->features),
                 .shift = floats(x->rows),
                 .keep = floats(x->features),
                 .v = floats(x->columns),
                 .out = floats(x->columns),
                 .state = malloc((size_t)x->rows * sizeof(attn_row_state))};
    for (int f = 0; f < x->features; f++) {
        a.sums.maximum[f] = -FLT_MAX;
        a.sums.mass[f] = 0;
    }
    memset(a.sums.values, 0, (size_t)(x->features * x->columns) * sizeof(float));
    return a;
}

static void close_fixture(fixture *a)
{
    float *const all[] = {a->sums.maximum, a->sums.mass, a->sums.values, a->t,  a->u,
                          a->shift,        a->keep,      a->v,           a->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(a->state);
}

static void copy_fixture(const spec *x, const fixture *from, fixture *to)
{
    const size_t features = (size_t)x->features, columns = (size_t)x->columns;
    const size_t rows = (size_t)x->rows, size = sizeof(float);
    memcpy(to->sums.maximum, from->sums.maximum, features * size);
    memcpy(to->sums.mass, from->sums.mass, features * size);
    memcpy(to->sums.values, from->sums.values, features * columns * size);
    memcpy(to->t, from->t, rows * features * size);
    memcpy(to->u, from->u, rows * features * size);
    memcpy(to->shift, from->shift, rows * size);
    memcpy(to->keep, from->keep, features * size);
    memcpy(to->v, from->v, columns * size);
}

/* Exponents of keys and queries, and a key's values; padding as the header asks. */
static void fill(const spec *x, fixture *a, test_random *random)
{
    random_fill(random, a->t, (size_t)(x->rows * x->features), x->gain);
    random_fill(random, a->u, (size_t)(x->rows * x->features), x->gain);
    random_fill(random, a->v, (size_t)x->columns, 1);
    a->v[x->columns - 1] = 0;
    for (int r = 0; r < x->rows; r++) {
        bool hidden = x->hiding == HIDE_ALL || (x->hiding == HIDE_SOME && r % 3 == 0);
        a->shift[r] = hidden ? INFINITY : x->gain * fabsf(random_normal(random));
        for (int f = x->features - 3; f < x->features; f++)
            a->t[r * x->features + f] = a->u[r * x->features + f] = -INFINITY;
    }
}

/* In static storage that the next call overwrites. */
static const char *describe(const spec *x, attn_isa isa, const char *what)
{
    static char text[160];
    snprintf(text, sizeof text, "%s on %s, features %d columns %d rows %d gain %g hiding %d", what,
             attn_isa_name(isa), x->features, x->columns, x->rows, x->gain, (int)x->hiding);
    return text;
}

/* Every element within `relative` of the other and `absolute`; where one is NaN both are. */
static void check_close(const char *what, const float *got, const float *wanted, int count,
                        double relative, double absolute)
{
    for (int i = 0; i < count; i++) {
        double allowed = relative * fabs((double)wanted[i]) + absolute;
        bool close = isnan(wanted[i]) ? isnan(got[i]) : fabs((double)got[i] - wanted[i]) <= allowed;
        CHECK(close, "%s: element %d is %.9g, expected %.9g within %.3g", what, i, got[i],
              wanted[i], allowed);
    }
}

/* The maximum is the same float. A feature is one exponential; mass is the sum of `rows` of them
 * and of what there was, kept by another: at most rows + 1 roundings of a sum of positive terms. */
static void check_absorb(const spec *x, const attn_kernels *k, fixture *scalar, fixture *tested)
{
    copy_fixture(x, scalar, tested);
    attn_features_scalar.absorb(&scalar->sums, scalar->t, scalar->shift, x->rows, scalar->keep);
    k->features->absorb(&tested->sums, tested->t, tested->shift, x->rows, tested->keep);
    check_close(describe(x, k->isa, "maximum"), tested->sums.maximum, scalar->sums.maximum,
                x->features, 0, 0);
    check_close(describe(x, k->isa, "phi"), tested->t, scalar->t, x->rows * x->features, exp_bound,
                flushed);
    check_close(describe(x, k->isa, "keep"), tested->keep, scalar->keep, x->features, exp_bound,
                flushed);
    check_close(describe(x, k->isa, "mass"), tested->sums.mass, scalar->sums.mass, x->features,
                exp_bound + (x->rows + 1) * 0x1p-23, x->rows * flushed);
}

/* The product that decays and the one that is added are rounded once each, or fused. */
static void check_values(const spec *x, const attn_kernels *k, fixture *scalar, fixture *tested)
{
    copy_fixture(x, scalar, tested);
    attn_features_scalar.add_key(&scalar->sums, scalar->keep, scalar->t, scalar->v);
    k->features->add_key(&tested->sums, tested->keep, tested->t, tested->v);
    /* Both products are at most the sum of their sizes; values are below 2^10 here. */
    check_close(describe(x, k->isa, "add_key"), tested->sums.values, scalar->sums.values,
                x->features * x->columns, 0x1p-22, 0x1p-12 * 0x1p-10);
    copy_fixture(x, scalar, tested);
    attn_features_scalar.decay(&scalar->sums, scalar->keep);
    k->features->decay(&tested->sums, tested->keep);
    check_close(describe(x, k->isa, "decay"), tested->sums.values, scalar->sums.values,
                x->features * x->columns, 0, 0);
}

/* Weights are one exponential each and the mass a sum of `features` products; the answer is off by
 * as many roundings of the sum of absolute values. */
static void check_answer(const spec *x, const attn_kernels *k, fixture *scalar, fixture *tested)
{
    copy_fixture(x, scalar, tested);
    attn_features_scalar.weigh(&scalar->sums, scalar->u, x->rows, scalar->state);
    k->features->weigh(&tested->sums, tested->u, x->rows, tested->state);
    if (scalar->sums.mass[0] != 0)
        check_close(describe(x, k->isa, "weights"), tested->u, scalar->u, x->rows * x->features,
                    exp_bound, flushed);
    for (int r = 0; r < x->rows; r++) {
        const attn_row_state *got = &tested->state[r], *wanted = &scalar->state[r];
        check_close(describe(x, k->isa, "row sum"), &got->sum, &wanted->sum, 1,
                    exp_bound + x->features * 0x1p-24, 0);
        check_close(describe(x, k->isa, "row maximum"), &got->maximum, &wanted->maximum, 1, 0, 0);
    }
    copy_fixture(x, scalar, tested);
    attn_features_scalar.read(&scalar->sums, scalar->u, scalar->out);
    k->features->read(&tested->sums, tested->u, tested->out);
    double most = 0;
    for (int c = 0; c < x->columns; c++) {
        double size = 0;
        for (int f = 0; f < x->features; f++)
            size += fabs((double)scalar->u[f] * scalar->sums.values[f * x->columns + c]);
        most = fmax(most, size);
    }
    check_close(describe(x, k->isa, "read"), tested->out, scalar->out, x->columns, 0x1p-23,
                most * x->features * 0x1p-24);
}

/* What the header promises, whoever computes: features of at most 1, a mass of at least 1 wherever
 * a key was seen, and 0 where none was. */
static void check_promises(const spec *x, attn_isa isa, const fixture *a, bool seen)
{
    for (int i = 0; i < x->rows * x->features; i++)
        CHECK(a->t[i] >= 0 && a->t[i] <= 1, "%s", describe(x, isa, "phi beyond [0, 1]"));
    for (int f = 0; f < x->features; f++) {
        bool padding = f >= x->features - 3;
        CHECK(padding || !seen ? a->sums.mass[f] == 0 : a->sums.mass[f] >= 1,
              "%s: %g for feature %d", describe(x, isa, "mass"), a->sums.mass[f], f);
    }
    for (int r = 0; r < x->rows; r++)
        CHECK(seen ? a->state[r].sum >= 1 : a->state[r].sum == 0, "%s: %g for row %d",
              describe(x, isa, "row sum"), a->state[r].sum, r);
}

static void check_spec(const spec *x, const attn_kernels *k)
{
    fixture scalar = open_fixture(x), tested = open_fixture(x);
    test_random random = {(uint64_t)(x->features * 1000 + x->rows)};
    bool seen = false;
    for (int turn = 0; turn < 3; turn++) {
        fill(x, &scalar, &random);
        seen |= x->hiding == HIDE_NONE || (x->hiding == HIDE_SOME && x->rows > 1);
        check_absorb(x, k, &scalar, &tested);
        check_values(x, k, &scalar, &tested);
        check_answer(x, k, &scalar, &tested);
        copy_fixture(x, &scalar, &tested);
        fill(x, &tested, &random);
        k->features->absorb(&tested.sums, tested.t, tested.shift, x->rows, tested.keep);
        k->features->weigh(&tested.sums, tested.u, x->rows, tested.state);
        check_promises(x, k->isa, &tested, seen);
    }
    close_fixture(&scalar);
    close_fixture(&tested);
}

static void test_against_scalar(void)
{
    static const int sizes[][3] = {{16, 16, 1}, {16, 32, 7}, {48, 16, 128}, {272, 80, 2}};
    static const float gains[] = {0, 1, 40, 1e4F, 1e30F};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t g = 0; g < sizeof gains / sizeof *gains; g++)
                for (int hidden = 0; hidden < HIDINGS; hidden++) {
                    const spec x = {sizes[i][0], sizes[i][1], sizes[i][2], gains[g],
                                    (hiding)hidden};
                    check_spec(&x, k);
                }
}

/* A NaN in a key's exponents reaches every row that weighs the feature, also after more keys; one
 * in a query's, that query alone. */
static void check_nan(const attn_kernels *k, int at)
{
    const spec x = {32, 16, 5, 1, HIDE_NONE};
    fixture a = open_fixture(&x);
    test_random random = {11};
    fill(&x, &a, &random);
    k->features->absorb(&a.sums, a.t, a.shift, x.rows, a.keep);
    a.u[2 * x.features + at] = NAN;
    k->features->weigh(&a.sums, a.u, x.rows, a.state);
    for (int r = 0; r < x.rows; r++)
        CHECK(!isnan(a.state[r].sum) == (r != 2), "%s: row %d of a query with NaN has mass %g",
              attn_isa_name(k->isa), r, a.state[r].sum);
    fill(&x, &a, &random);
    a.t[3 * x.features + at] = NAN;
    k->features->absorb(&a.sums, a.t, a.shift, x.rows, a.keep);
    for (int turn = 0; turn < 2; turn++) {
        fill(&x, &a, &random);
        k->features->absorb(&a.sums, a.t, a.shift, x.rows, a.keep);
        for (int f = 0; f < x.features; f++)
            CHECK(!isnan(a.sums.mass[f]) == (f != at), "%s: feature %d has mass %g, NaN in %d",
                  attn_isa_name(k->isa), f, a.sums.mass[f], at);
        k->features->weigh(&a.sums, a.u, x.rows, a.state);
        for (int r = 0; r < x.rows; r++)
            CHECK(isnan(a.state[r].sum), "%s: row %d lost a NaN of feature %d",
                  attn_isa_name(k->isa), r, at);
    }
    close_fixture(&a);
}

static void test_nan(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int at = 0; at < 29; at += 7)
            check_nan(k, at);
}

/* Queries that overflow do not disturb rows without a key. */
static void test_no_key_and_any_query(void)
{
    static const float wild[] = {1e38F, -3e38F, INFINITY, -INFINITY, NAN};
    const spec x = {16, 16, 5, 1, HIDE_ALL};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        fixture a = open_fixture(&x);
        test_random random = {12};
        fill(&x, &a, &random);
        for (int r = 0; r < x.rows; r++)
            for (int f = 0; f < x.features; f++)
                a.u[r * x.features + f] = wild[r];
        k->features->absorb(&a.sums, a.t, a.shift, x.rows, a.keep);
        k->features->weigh(&a.sums, a.u, x.rows, a.state);
        for (int r = 0; r < x.rows; r++)
            CHECK(a.state[r].sum == 0, "%s: mass %g of no key for exponents %g",
                  attn_isa_name(k->isa), a.state[r].sum, wild[r]);
        close_fixture(&a);
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"against scalar", test_against_scalar},
        {"nan", test_nan},
        {"no key and any query", test_no_key_and_any_query},
        {NULL, NULL},
    };
    return test_main("features", cases);
}
