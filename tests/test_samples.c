/* Which rows are sampled: in order, inside of the sequences, and chosen in no time however many
 * there are. */
#include "program/sample.h"
#include "tests/support/suite.h"

#include <string.h>

enum {
    BATCH = 5,
    N = 40
};

static void check_order(const attn_samples *samples, const attn_shape *shape)
{
    for (int s = 0; s < samples->count; s++) {
        int64_t b = samples->at[s].b, i = samples->at[s].i;
        CHECK(b >= 0 && b < shape->batch && i >= 0 && i < shape->n, "sample %d is (%lld, %lld)", s,
              (long long)b, (long long)i);
        if (s == 0)
            continue;
        int64_t row = samples->at[s - 1].b, before = samples->at[s - 1].i;
        CHECK(row < b || (row == b && before < i), "sample %d is not behind the one before", s);
    }
}

/* Lengths that say what is so anyway change nothing. */
static void test_lengths_that_are_all(void)
{
    const attn_shape shape = {BATCH, 1, 1, N, N, 1, 1};
    const attn_sampling sampling = {ATTN_SAMPLES, 3};
    int64_t lengths[BATCH];
    attn_samples with = {0}, without = {0};
    for (int b = 0; b < BATCH; b++)
        lengths[b] = N;
    attn_samples_choose(&without, &sampling, &shape, &(attn_mask){0});
    attn_samples_choose(&with, &sampling, &shape, &(attn_mask){.lengths = lengths});
    CHECK(without.count == ATTN_SAMPLES, "%d samples", without.count);
    check_order(&without, &shape);
    CHECK(memcmp(&with, &without, sizeof with) == 0, "lengths of all rows choose others");
}

/* A plan may be asked for more rows than anybody can count through. */
static void test_billions_of_rows(void)
{
    const attn_shape shape = {INT32_MAX, 1, 1, INT32_MAX, INT32_MAX, 1, 1};
    const attn_sampling sampling = {ATTN_SAMPLES_MAX, 3};
    attn_samples samples = {0};
    for (int i = 0; i < 1000; i++)
        attn_samples_choose(&samples, &sampling, &shape, &(attn_mask){0});
    CHECK(samples.count == ATTN_SAMPLES_MAX, "%d samples", samples.count);
    check_order(&samples, &shape);
    CHECK(samples.at[samples.count - 1].b > INT32_MAX / 2, "the last sample is in row %lld",
          (long long)samples.at[samples.count - 1].b);
}

int main(void)
{
    static const test_case cases[] = {{"lengths that are all", test_lengths_that_are_all},
                                      {"billions of rows", test_billions_of_rows},
                                      {NULL, NULL}};
    return test_main("samples", cases);
}
