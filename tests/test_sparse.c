/* Window and Sparse Transformer attention do the work that their patterns leave, and little more:
 * none runs as a dense loop behind a mask. */
#include "tests/support/attend.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_KEYS = 1200
};

typedef struct spec {
    const char *mixer;
    attn_pattern pattern;
    int64_t window, stride, summary;
} spec;

static const spec specs[] = {
    {"window", ATTN_STRIDED, 1, 0, 1},    {"window", ATTN_STRIDED, 40, 0, 1},
    {"window", ATTN_STRIDED, 2000, 0, 1}, {"sparse", ATTN_STRIDED, 1, 0, 1},
    {"sparse", ATTN_STRIDED, 1, 1, 1},    {"sparse", ATTN_STRIDED, 1, 100, 1},
    {"sparse", ATTN_STRIDED, 1, 5000, 1}, {"sparse", ATTN_FIXED, 1, 0, 1},
    {"sparse", ATTN_FIXED, 1, 0, 4},      {"sparse", ATTN_FIXED, 1, 1, 1},
    {"sparse", ATTN_FIXED, 1, 7, 9},      {"sparse", ATTN_FIXED, 1, 5000, 1},
    {"sparse", ATTN_LOCAL, 1, 0, 1},      {"sparse", ATTN_LOCAL, 1, 1, 1},
};

enum {
    SPECS = sizeof specs / sizeof *specs
};

static int64_t modulo(int64_t a, int64_t b)
{
    return (a % b + b) % b;
}

/* Stated anew from the heads of window.c and sparse.c. */
static bool pattern_sees(const spec *x, const attn_shape *s, bool causal, int64_t i, int64_t j)
{
    int64_t p = i + s->m - s->n, away = p - j, l = x->stride;
    if (causal && away < 0)
        return false;
    if (strcmp(x->mixer, "window") == 0)
        return causal ? away < x->window : llabs(away) <= x->window;
    l = l ? l : (int64_t)ceil(sqrt((double)s->m));
    switch (x->pattern) {
    case ATTN_LOCAL:
        return llabs(away) < l;
    case ATTN_STRIDED:
        return llabs(away) < l || away % l == 0;
    case ATTN_FIXED:
        return p - modulo(p, l) == j - modulo(j, l) || modulo(j, l) >= l - x->summary;
    }
    return false;
}

static uint64_t visible_pairs(const spec *x, const attn_shape *s, const attn_mask *mask)
{
    uint64_t pairs = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->n; i++)
            for (int64_t j = 0; j < s->m; j++)
                pairs += attend_sees(s, mask, b, i, j) && pattern_sees(x, s, mask->causal, i, j);
    return pairs * (uint64_t)s->heads;
}

/* Rows that a phase's tiles have at most: those of one residue class where it goes by strides. */
static int64_t rows_of(const attn_plan *plan, int phase)
{
    int64_t rows = plan->tile_rows, l = plan->params.stride;
    if (phase == 0)
        return rows;
    int64_t class_rows = (plan->shape.n + l - 1) / l;
    return class_rows < rows ? class_rows : rows;
}

/* Scores computed beyond the visible pairs. Rows of a panel share the keys that any of them sees.
 * Lengths and key masks hide the same keys from all, so only the two diagonal edges of a band cost:
 * of R rows, row r computes r more than it sees behind one and R - 1 - r behind the other. */
static uint64_t slack(const attn_plan *plan)
{
    uint64_t most = 0;
    for (int p = 0; p < plan->phase_count; p++) {
        uint64_t panel = (uint64_t)plan->kernels->panel_rows, rows = (uint64_t)rows_of(plan, p);
        uint64_t panels = (rows + panel - 1) / panel, together = rows < panel ? rows : panel;
        most += (uint64_t)plan->phases[p].tiles * panels * together * (together - 1);
    }
    return most;
}

static attn_mix_params params_of(const spec *x, int64_t d)
{
    attn_mix_params params;
    attn_mix_params_init(&params, d);
    params.pattern = x->pattern;
    params.window = x->window;
    params.stride = x->stride;
    params.summary = x->summary;
    return params;
}

static attend_result run(const spec *x, const attn_shape *s, const attn_mask *mask,
                         const attend_arrays *arrays, attn_isa isa)
{
    attn_mix_params params = params_of(x, s->d);
    attend_call call = attend_dense(s, arrays, isa);
    call.mixer = x->mixer;
    call.params = &params;
    call.mask = *mask;
    attend_result result;
    attn_error error = {0};
    attn_status status = attend_run(&call, &result, &error);
    CHECK(status == ATTN_OK, "%s pattern %d stride %lld: %s", x->mixer, (int)x->pattern,
          (long long)x->stride, error.message);
    return result;
}

static void check_work(const spec *x, const attn_shape *s, const attn_mask *mask,
                       const attend_arrays *arrays, uint64_t visible, attn_isa isa)
{
    attend_result result = run(x, s, mask, arrays, isa);
    uint64_t more = slack(&result.plan);
    CHECK(result.scores >= visible && result.scores <= visible + more,
          "%s on %s pattern %d window %lld stride %lld summary %lld n %lld m %lld%s%s%s: %llu "
          "scores for %llu visible pairs, %llu more allowed",
          x->mixer, attn_isa_name(isa), (int)x->pattern, (long long)x->window, (long long)x->stride,
          (long long)x->summary, (long long)s->n, (long long)s->m, mask->causal ? " causal" : "",
          mask->lengths ? " lengths" : "", mask->key_mask ? " key_mask" : "",
          (unsigned long long)result.scores, (unsigned long long)visible, (unsigned long long)more);
    CHECK(isa != ATTN_ISA_SCALAR || result.scores == visible,
          "%s pattern %d: scalar computes what is visible and nothing else", x->mixer,
          (int)x->pattern);
}

static void check_specs(const attn_shape *s, const attn_mask *mask, const attend_arrays *arrays)
{
    for (int i = 0; i < SPECS; i++) {
        uint64_t visible = visible_pairs(&specs[i], s, mask);
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
            check_work(&specs[i], s, mask, arrays, visible, k->isa);
    }
}

static void test_work_is_what_is_visible(void)
{
    static const attn_shape shapes[] = {{2, 2, 1, 500, 500, 3, 2},
                                        {2, 2, 2, 150, 1200, 2, 1},
                                        {2, 1, 1, 600, 200, 1, 2},
                                        {2, 2, 1, 1, 300, 2, 2}};
    static uint8_t key_mask[2 * MOST_KEYS];
    test_random random = {6};
    for (int i = 0; i < 2 * MOST_KEYS; i++)
        key_mask[i] = random_int(&random, 0, 2) > 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t lengths[] = {shapes[i].m / 3, shapes[i].m};
        attend_arrays arrays = attend_arrays_open(&shapes[i], 1);
        for (int kind = 0; kind < 6; kind++) {
            const attn_mask mask = {.causal = kind % 2 != 0,
                                    .lengths = kind / 2 == 1 ? lengths : NULL,
                                    .key_mask = kind / 2 == 2 ? key_mask : NULL};
            check_specs(&shapes[i], &mask, &arrays);
        }
        attend_arrays_close(&arrays);
    }
}

/* Twice the length costs twice the scores in a window, and 2 sqrt 2 times in a pattern whose stride
 * is the root of the length; a dense loop would cost 4 times. Less than that is what the edges of
 * tiles cost, which only double; 0.1 is for lengths and strides being whole. */
static void test_growth(void)
{
    static const struct {
        spec spec;
        double factor;
    } growths[] = {{{"window", ATTN_STRIDED, 64, 0, 1}, 2},
                   {{"sparse", ATTN_STRIDED, 1, 0, 1}, 2.828},
                   {{"sparse", ATTN_FIXED, 1, 0, 1}, 2.828},
                   {{"sparse", ATTN_LOCAL, 1, 0, 1}, 2.828}};
    for (int i = 0; i < 8; i++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            const spec *x = &growths[i / 2].spec;
            const attn_mask mask = {.causal = i % 2 != 0};
            uint64_t scores[2];
            for (int j = 0; j < 2; j++) {
                const attn_shape shape = {1, 1, 1, 4096 << j, 4096 << j, 1, 1};
                attend_arrays arrays = attend_arrays_open(&shape, 1);
                scores[j] = run(x, &shape, &mask, &arrays, k->isa).scores;
                attend_arrays_close(&arrays);
            }
            double factor = (double)scores[1] / (double)scores[0];
            CHECK(factor > 1.9 && factor < growths[i / 2].factor + 0.1,
                  "%s pattern %d%s on %s: %llu scores at 4096, %.3f times as many at 8192",
                  x->mixer, (int)x->pattern, mask.causal ? " causal" : "", attn_isa_name(k->isa),
                  (unsigned long long)scores[0], factor);
        }
}

/* What is predicted goes by the pattern too: at most a small multiple of the pairs' time. */
static void test_predicted_time(void)
{
    const double rate = 10;
    const attn_shape shape = {2, 2, 1, 1100, 1100, 64, 64};
    for (int i = 0; i < SPECS; i++)
        for (int causal = 0; causal < 2; causal++) {
            attn_machine machine = attend_machine(ATTN_ISA_SCALAR, rate);
            attn_mix_params params = params_of(&specs[i], shape.d);
            params.mask.causal = causal != 0;
            attn_plan plan = {0};
            attn_mixer_plan(attn_mixer_find(specs[i].mixer), &machine, &params, &shape, &plan,
                            NULL);
            double pairs = (double)visible_pairs(&specs[i], &shape, &params.mask), tiles = 0;
            for (int p = 0; p < plan.phase_count; p++)
                tiles += (double)plan.phases[p].tiles;
            double expected = pairs * 2 * (double)(shape.d + shape.dv) / rate;
            CHECK(attn_plan_ns(&plan) >= 0.95 * expected &&
                      attn_plan_ns(&plan) <= 2.2 * expected + 10e3 * tiles,
                  "%s pattern %d stride %lld%s: predicted %g ns, expected %g", specs[i].mixer,
                  (int)specs[i].pattern, (long long)specs[i].stride, causal ? " causal" : "",
                  attn_plan_ns(&plan), expected);
        }
}

int main(void)
{
    static const test_case cases[] = {
        {"work is what is visible", test_work_is_what_is_visible},
        {"growth", test_growth},
        {"predicted time", test_predicted_time},
        {NULL, NULL},
    };
    return test_main("sparse", cases);
}
