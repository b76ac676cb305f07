/* The registry of mixers, and the refusals that every plan shares: each names the field at fault
 * and says in a sentence what was found and what was expected. */
#include "attn/mixer.h"
#include "tests/support/attend.h"
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

static void test_registry(void)
{
    for (int i = 0; attn_mixers[i]; i++) {
        const attn_mixer *mixer = attn_mixers[i];
        CHECK(mixer->name && mixer->name[0] && mixer->summary && mixer->summary[0],
              "mixer %d lacks a name or a summary", i);
        CHECK(mixer->plan && mixer->run, "%s lacks plan or run", mixer->name);
        CHECK(attn_mixer_find(mixer->name) == mixer, "%s is not found, or there are two",
              mixer->name);
    }
    static const char *const unknown[] = {"", "Exact", "exact ", "flash"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        CHECK(attn_mixer_find(unknown[i]) == NULL, "found \"%s\"", unknown[i]);
}

static void test_exact_traits(void)
{
    const attn_mixer *exact = attn_mixer_find("exact");
    CHECK(exact != NULL, "exact is not registered");
    CHECK(exact && exact->traits == (ATTN_CAUSAL | ATTN_EXACT), "traits %x",
          exact ? exact->traits : 0);
}

/* Plan exact attention; the error, if any, is left in *error. */
static attn_status plan_exact(const attn_shape *shape, const attn_mix_params *params,
                              attn_error *error)
{
    attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 0);
    attn_plan plan;
    return attn_mixer_plan(attn_mixer_find("exact"), &machine, params, shape, &plan, error);
}

static const attn_shape good_shape = {2, 4, 2, 8, 8, 8, 8};

static void check_refused(const attn_shape *shape, const attn_mix_params *params, const char *param,
                          const char *words)
{
    attn_error error = {0};
    attn_status status = plan_exact(shape, params, &error);
    CHECK(status == ATTN_INVALID && error.status == status && strcmp(error.param, param) == 0 &&
              strstr(error.message, words),
          "%s, param \"%s\": \"%s\"; expected param \"%s\" and \"%s\"", attn_status_name(status),
          error.param, error.message, param, words);
    CHECK(plan_exact(shape, params, NULL) == ATTN_INVALID, "%s without an error to fill", param);
}

static void test_sizes(void)
{
    static const struct {
        const char *name, *words;
        int64_t value;
    } wrong[] = {{"0", "is 0, expected 1 to 2147483647", 0},
                 {"-1", "is -1, expected", -1},
                 {"lowest", "is -9223372036854775808, expected", INT64_MIN},
                 {"2^31", "is 2147483648, expected", (int64_t)INT32_MAX + 1},
                 {"highest", "is 9223372036854775807, expected", INT64_MAX}};
    static const char *const fields[] = {"batch", "heads", "kv_heads", "n", "m", "d", "dv"};
    const attn_mix_params params = {.scale = 1};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            attn_shape shape = good_shape;
            int64_t *const sizes[] = {&shape.batch, &shape.heads, &shape.kv_heads, &shape.n,
                                      &shape.m,     &shape.d,     &shape.dv};
            *sizes[f] = wrong[w].value;
            check_refused(&shape, &params, fields[f], wrong[w].words);
        }
}

/* The largest size that fits an int is planned (nothing is allocated for it). */
static void test_largest_sizes(void)
{
    const attn_mix_params params = {.scale = 1};
    attn_error error = {0};
    attn_shape shape = {1, 1, 1, INT32_MAX, INT32_MAX, 1, 1};
    attn_status status = plan_exact(&shape, &params, &error);
    CHECK(status == ATTN_OK, "n and m: %s", error.message);
    shape = (attn_shape){1, 1, 1, 1, 1, INT32_MAX, INT32_MAX};
    status = plan_exact(&shape, &params, &error);
    CHECK(status == ATTN_OK, "d and dv: %s", error.message);
    shape = (attn_shape){1, INT32_MAX, INT32_MAX, 1, 1, 1, 1};
    status = plan_exact(&shape, &params, &error);
    CHECK(status == ATTN_OK, "heads: %s", error.message);
}

static void test_head_groups(void)
{
    static const int64_t groups[][2] = {{4, 3}, {2, 4}, {7, 2}, {1, 2}};
    const attn_mix_params params = {.scale = 1};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        attn_shape shape = good_shape;
        shape.heads = groups[i][0];
        shape.kv_heads = groups[i][1];
        check_refused(&shape, &params, "k", "do not divide evenly");
    }
}

static void test_lengths(void)
{
    static const struct {
        int64_t lengths[2];
        const char *words;
    } wrong[] = {{{-1, 8}, "lengths[0] is -1, expected 0 to the 8 keys"},
                 {{8, 9}, "lengths[1] is 9, expected 0 to the 8 keys"},
                 {{0, INT64_MIN}, "lengths[1] is -9223372036854775808"},
                 {{INT64_MAX, 0}, "lengths[0] is 9223372036854775807"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const attn_mix_params params = {.scale = 1, .mask.lengths = wrong[i].lengths};
        check_refused(&good_shape, &params, "lengths", wrong[i].words);
    }
    static const int64_t edges[] = {0, 8};
    const attn_mix_params params = {.scale = 1, .mask.lengths = edges};
    CHECK(plan_exact(&good_shape, &params, NULL) == ATTN_OK, "lengths 0 and 8 of 8");
}

static void test_scales(void)
{
    static const float wrong[] = {0.0F, -0.0F, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const attn_mix_params params = {.scale = wrong[i]};
        check_refused(&good_shape, &params, "scale", "expected a finite number other than 0");
    }
    static const float right[] = {-1.0F, 1e-30F, 1e30F};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        const attn_mix_params params = {.scale = right[i]};
        CHECK(plan_exact(&good_shape, &params, NULL) == ATTN_OK, "scale %g", right[i]);
    }
}

static attn_status plan_nothing(const attn_machine *machine, const attn_mix_params *params,
                                const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    (void)machine, (void)params, (void)shape, (void)error;
    plan->phase_count = 0;
    return ATTN_OK;
}

/* A variant without a causal form is refused before it is asked. */
static void test_no_causal_form(void)
{
    static const attn_mixer symmetric = {
        .name = "symmetric", .summary = "for this test", .plan = plan_nothing};
    attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 0);
    attn_mix_params params = {.scale = 1};
    attn_plan plan;
    attn_error error = {0};
    attn_status status = attn_mixer_plan(&symmetric, &machine, &params, &good_shape, &plan, &error);
    CHECK(status == ATTN_OK, "without causal: %s", error.message);
    params.mask.causal = true;
    status = attn_mixer_plan(&symmetric, &machine, &params, &good_shape, &plan, &error);
    CHECK(status == ATTN_UNSUPPORTED && strcmp(error.param, "causal") == 0 &&
              strstr(error.message, "symmetric has no causal form"),
          "%s, param %s: %s", attn_status_name(status), error.param, error.message);
}

int main(void)
{
    static const test_case cases[] = {
        {"registry", test_registry},
        {"traits of exact", test_exact_traits},
        {"sizes", test_sizes},
        {"largest sizes", test_largest_sizes},
        {"head groups", test_head_groups},
        {"lengths", test_lengths},
        {"scales", test_scales},
        {"no causal form", test_no_causal_form},
        {NULL, NULL},
    };
    return test_main("mixer", cases);
}
