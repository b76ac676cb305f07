/* Programs of raw calls: the answer is the mixer's own, and sampled rows measure how far it is from
 * exact attention. */
#include "tests/support/program.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct subject {
    attn_shape shape;
    attend_arrays arrays;
    attn_mix_params params;
    attn_mask mask;
    attn_isa isa;
    int key_ranges; /* as in attend_call */
} subject;

static attn_frame frame_of(const subject *x)
{
    return (attn_frame){.data = {[ATTN_ARRAY_Q] = x->arrays.q,
                                 [ATTN_ARRAY_K] = x->arrays.k,
                                 [ATTN_ARRAY_V] = x->arrays.v,
                                 [ATTN_ARRAY_OUT] = x->arrays.out}};
}

/* Answer by `mixer` into x->arrays.out, sampling as told. */
static attn_status answer(const subject *x, const char *mixer, attn_sampling sampling,
                          attend_order order, attn_deviation *deviation)
{
    attn_machine machine = attend_machine_for_ranges(x->isa, &x->shape, x->key_ranges);
    attn_program *program;
    attn_frame frame = frame_of(x);
    size_t peak = 0;
    attn_status status = attn_program_attend(&program, &machine, attn_mixer_find(mixer), &x->params,
                                             &x->shape, &sampling, NULL);
    if (status != ATTN_OK)
        return status;
    status = program_run(program, &frame, order, &peak);
    CHECK(peak <= attn_program_bytes(program, 1), "%s: %zu bytes of %zu", mixer, peak,
          attn_program_bytes(program, 1));
    *deviation = attn_program_deviation(program, &frame);
    free(frame.data[ATTN_ARRAY_SHARED]);
    attn_program_close(program);
    return status;
}

static float *copy_of(const attend_arrays *arrays)
{
    float *copy = malloc(arrays->out_count * sizeof *copy);
    memcpy(copy, arrays->out, arrays->out_count * sizeof *copy);
    return copy;
}

/* |a - b| / |b| over everything. */
static double relative_l2(const float *a, const float *b, size_t count)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference / norm);
}

static subject subject_open(attn_shape shape, attn_mask mask, attn_isa isa)
{
    subject x = {.shape = shape, .mask = mask, .isa = isa};
    x.arrays = attend_arrays_open(&shape, 11);
    attn_mix_params_init(&x.params, shape.d);
    x.params.mask = mask;
    x.params.window = 5;
    return x;
}

static const attn_sampling none = {0};
static const attn_sampling every = {.rows = ATTN_SAMPLES_MAX};

static void check_cut_subject(const char *name, attn_shape shape, attn_mask mask, attn_isa isa,
                              int key_ranges)
{
    subject x = subject_open(shape, mask, isa);
    x.key_ranges = key_ranges;
    attn_deviation deviation;
    attn_status status = answer(&x, "exact", none, ATTEND_FORWARD, &deviation);
    CHECK(status == ATTN_OK && deviation.rows == 0, "%s: nothing was to be sampled", name);
    float *exact = copy_of(&x.arrays);
    status = answer(&x, "exact", every, ATTEND_FORWARD, &deviation);
    /* The same sums in another order: rounding of one answer, 2^-24 for each of its few roundings.
     */
    CHECK(status == ATTN_OK && deviation.relative_l2 <= 1e-6,
          "%s on %s, %d ranges: exact is off by %g", name, attn_isa_name(isa), key_ranges,
          deviation.relative_l2);
    CHECK(memcmp(exact, x.arrays.out, x.arrays.out_count * sizeof *exact) == 0,
          "%s on %s, %d ranges: sampling changes the answer", name, attn_isa_name(isa), key_ranges);
    for (int order = 0; order < ATTEND_ORDERS; order++) {
        status = answer(&x, "window", every, (attend_order)order, &deviation);
        double expected = relative_l2(x.arrays.out, exact, x.arrays.out_count);
        CHECK(status == ATTN_OK && fabs(deviation.relative_l2 - expected) <= 1e-5 * expected,
              "%s on %s, %d ranges, order %d: measured %.9g, is %.9g", name, attn_isa_name(isa),
              key_ranges, order, deviation.relative_l2, expected);
    }
    free(exact);
    attend_arrays_close(&x.arrays);
}

static void check_subject(const char *name, attn_shape shape, attn_mask mask, attn_isa isa)
{
    static const int key_ranges[] = {0, 2, 7};
    for (size_t i = 0; i < sizeof key_ranges / sizeof *key_ranges; i++)
        check_cut_subject(name, shape, mask, isa, key_ranges[i]);
}

/* Every row sampled: then the estimate is the distance. */
static void test_all_rows(void)
{
    const int64_t lengths[] = {33, 0, 7};
    static uint8_t key_mask[2 * 50];
    for (size_t j = 0; j < sizeof key_mask; j++)
        key_mask[j] = j % 3 != 1;
    const attn_shape plain = {1, 1, 1, 60, 60, 8, 8}, grouped = {3, 4, 2, 33, 33, 5, 3},
                     longer = {2, 2, 1, 20, 50, 16, 16}, shorter = {1, 3, 3, 50, 20, 4, 7};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        check_subject("plain", plain, (attn_mask){0}, k->isa);
        check_subject("causal", plain, (attn_mask){.causal = true}, k->isa);
        check_subject("lengths", grouped, (attn_mask){.lengths = lengths}, k->isa);
        check_subject("causal lengths", grouped, (attn_mask){.causal = true, .lengths = lengths},
                      k->isa);
        check_subject("more keys", longer, (attn_mask){.causal = true}, k->isa);
        check_subject("key mask", longer, (attn_mask){.causal = true, .key_mask = key_mask},
                      k->isa);
        check_subject("fewer keys", shorter, (attn_mask){.causal = true}, k->isa);
    }
}

/* 64 of 900 rows estimate the distance of all: each row's share of it is about the same here, so
 * that a fifth is far beyond what drawing them can do. */
static void test_estimate(void)
{
    const attn_shape shape = {1, 2, 2, 900, 900, 16, 16};
    subject x = subject_open(shape, (attn_mask){.causal = true}, ATTN_ISA_SCALAR);
    attn_deviation deviation, again, other;
    attn_status status = answer(&x, "exact", none, ATTEND_FORWARD, &deviation);
    float *exact = copy_of(&x.arrays);
    attn_sampling sampling = {.rows = ATTN_SAMPLES, .seed = 3};
    status |= answer(&x, "window", sampling, ATTEND_FORWARD, &deviation);
    status |= answer(&x, "window", sampling, ATTEND_BACKWARD, &again);
    sampling.seed = 4;
    status |= answer(&x, "window", sampling, ATTEND_FORWARD, &other);
    double all = relative_l2(x.arrays.out, exact, x.arrays.out_count);
    CHECK(status == ATTN_OK && deviation.rows == ATTN_SAMPLES, "%lld rows",
          (long long)deviation.rows);
    CHECK(fabs(deviation.relative_l2 - all) < 0.2 * all, "estimated %g, is %g",
          deviation.relative_l2, all);
    CHECK(deviation.relative_l2 == again.relative_l2, "the same seed estimates %g and %g",
          deviation.relative_l2, again.relative_l2);
    CHECK(deviation.relative_l2 != other.relative_l2, "another seed takes the same rows");
    free(exact);
    attend_arrays_close(&x.arrays);
}

/* Fewer rows than asked for, none at all, and an exact answer of zeros. */
static void test_few_rows(void)
{
    const int64_t lengths[] = {0, 0};
    const attn_shape shape = {2, 1, 1, 3, 3, 4, 4};
    subject x = subject_open(shape, (attn_mask){0}, ATTN_ISA_SCALAR);
    attn_deviation deviation;
    attn_sampling sampling = {.rows = ATTN_SAMPLES};
    attn_status status = answer(&x, "window", sampling, ATTEND_FORWARD, &deviation);
    CHECK(status == ATTN_OK && deviation.rows == 6, "%lld rows of 6", (long long)deviation.rows);
    x.params.mask.lengths = lengths;
    status = answer(&x, "window", sampling, ATTEND_FORWARD, &deviation);
    CHECK(status == ATTN_OK && deviation.rows == 0, "%lld rows of nothing",
          (long long)deviation.rows);
    memset(x.arrays.v, 0, (size_t)(2 * 3 * 4) * sizeof(float));
    x.params.mask.lengths = NULL;
    status = answer(&x, "window", sampling, ATTEND_FORWARD, &deviation);
    CHECK(status == ATTN_OK && deviation.relative_l2 == 0, "zeros are off by %g",
          deviation.relative_l2);
    attend_arrays_close(&x.arrays);
}

static void test_refusals(void)
{
    const attn_shape shape = {1, 1, 1, 3, 3, 4, 4};
    attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 0);
    attn_mix_params params;
    attn_program *program;
    attn_error error = {0};
    attn_mix_params_init(&params, shape.d);
    params.mask.causal = true;
    attn_status status = attn_program_attend(&program, &machine, attn_mixer_find("linformer"),
                                             &params, &shape, NULL, &error);
    CHECK(status == ATTN_UNSUPPORTED && !program && error.message[0], "causal linformer: %s",
          error.message);
}

int main(void)
{
    static const test_case cases[] = {
        {"every row sampled is the distance itself", test_all_rows},
        {"some rows estimate it, the same ones for a seed", test_estimate},
        {"few rows, none, and zeros", test_few_rows},
        {"a refused plan is no program", test_refusals},
        {NULL, NULL},
    };
    return test_main("program", cases);
}
