#include "attn/dtype.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float convert(attn_dtype dtype, const void *from)
{
    float to;
    attn_dtype_to_float(dtype, from, 1, &to);
    return to;
}

static void names_and_sizes(void)
{
    static const struct {
        const char *name;
        attn_dtype dtype;
        size_t bytes;
    } known[] = {{"FP32", ATTN_FP32, 4},
                 {"FP16", ATTN_FP16, 2},
                 {"BF16", ATTN_BF16, 2},
                 {"FP64", ATTN_FP64, 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        attn_dtype found;
        CHECK(attn_dtype_find(known[i].name, &found) && found == known[i].dtype, "find %s",
              known[i].name);
        CHECK(strcmp(attn_dtype_name(known[i].dtype), known[i].name) == 0, "name %s",
              known[i].name);
        CHECK(attn_dtype_bytes(known[i].dtype) == known[i].bytes, "bytes of %s", known[i].name);
    }
    static const char *const unknown[] = {"", "fp32", "FP3", "FP322", "INT8", "F32"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        attn_dtype found;
        CHECK(!attn_dtype_find(unknown[i], &found), "\"%s\" is found", unknown[i]);
    }
}

/* What IEEE 754 says a binary16 is worth, by arithmetic. */
static float half_by_definition(uint16_t half)
{
    int exponent = half >> 10 & 31;
    int mantissa = half & 1023;
    float sign = half >> 15 ? -1.0f : 1.0f;
    if (exponent == 31)
        return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(1024 + mantissa), exponent - 25);
}

static void every_half(void)
{
    for (uint32_t h = 0; h < 1u << 16; h++) {
        uint16_t half = (uint16_t)h;
        float expected = half_by_definition(half), got = convert(ATTN_FP16, &half);
        CHECK(isnan(expected) ? isnan(got) : bits_of(got) == bits_of(expected),
              "half %#06x: %a, expected %a", h, (double)got, (double)expected);
    }
}

static void every_bfloat(void)
{
    for (uint32_t h = 0; h < 1u << 16; h++) {
        uint16_t half = (uint16_t)h;
        uint32_t got = bits_of(convert(ATTN_BF16, &half));
        CHECK(got == h << 16, "bfloat %#06x: bits %#010x", h, got);
    }
}

static void doubles_round_to_nearest(void)
{
    static const struct {
        double from;
        float to;
    } pairs[] = {{0.1, 0.1f},
                 {-0.0, -0.0f},
                 {1 + 0x1p-24, 1.0f},                /* a tie goes to even */
                 {1 + 0x1.8p-23, 1 + 0x1p-22f},      /* and this one upwards */
                 {1 + 0x1.000001p-24, 1 + 0x1p-23f}, /* just above a tie */
                 {0x1p-149, 0x1p-149f},
                 {0x1p-151, 0.0f},
                 {0x1.fffffefffffffp127, 0x1.fffffep127f},
                 {0x1.ffffffp127, INFINITY},
                 {-1e300, -INFINITY}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        float got = convert(ATTN_FP64, &pairs[i].from);
        CHECK(bits_of(got) == bits_of(pairs[i].to), "%a: %a, expected %a", pairs[i].from,
              (double)got, (double)pairs[i].to);
    }
    double nan_value = NAN;
    CHECK(isnan(convert(ATTN_FP64, &nan_value)), "NaN stays NaN");
}

/* The nearest of all BF16 by definition: both neighbours are tried, and of a tie the even one. */
static uint16_t nearest_bf16(float value)
{
    uint16_t below = (uint16_t)(bits_of(value) >> 16), above = (uint16_t)(below + 1);
    double magnitude = fabs((double)value);
    /* One above the largest is where infinity's bits stand, and counts as 2^128. */
    double low = fabs((double)convert(ATTN_BF16, &below)), high = 0x1p128;
    if ((above & 0x7f80) != 0x7f80)
        high = fabs((double)convert(ATTN_BF16, &above));
    if (magnitude - low == high - magnitude)
        return below % 2 ? above : below;
    return magnitude - low < high - magnitude ? below : above;
}

/* Every BF16 with remainders around nothing, a tie, and the next BF16. */
static void rounds_to_bf16(void)
{
    static const uint32_t remainders[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (uint32_t high = 0; high < 1u << 16; high++) {
        for (size_t i = 0; i < sizeof remainders / sizeof *remainders; i++) {
            uint32_t bits = high << 16 | remainders[i];
            float value;
            memcpy(&value, &bits, sizeof value);
            uint16_t got = attn_bf16_from_float(value);
            if (isfinite(value))
                CHECK(got == nearest_bf16(value), "%a: %#06x, expected %#06x", (double)value, got,
                      nearest_bf16(value));
            else if (isnan(value))
                CHECK(isnan(convert(ATTN_BF16, &got)) && got >> 15 == high >> 15 && got & 0x40,
                      "NaN %#010x: %#06x, expected a quiet NaN of its sign", bits, got);
            else
                CHECK(got == high, "%a: %#06x", (double)value, got);
        }
    }
}

/* Elements at every offset within a word, and a fence after the last. */
static void unaligned(void)
{
    static const float values[] = {1.5f, -2.25f, 0.0f, 1e10f, -1e-10f};
    enum {
        COUNT = 5
    };
    for (size_t offset = 0; offset < 8; offset++) {
        unsigned char raw[COUNT * sizeof(double) + 8];
        float to[COUNT + 1] = {[COUNT] = 77};
        memcpy(raw + offset, values, sizeof values);
        attn_dtype_to_float(ATTN_FP32, raw + offset, COUNT, to);
        CHECK(memcmp(to, values, sizeof values) == 0, "FP32 at offset %zu", offset);
        for (size_t i = 0; i < COUNT; i++) {
            double wide = values[i];
            memcpy(raw + offset + i * sizeof wide, &wide, sizeof wide);
        }
        attn_dtype_to_float(ATTN_FP64, raw + offset, COUNT, to);
        CHECK(memcmp(to, values, sizeof values) == 0, "FP64 at offset %zu", offset);
        CHECK(to[COUNT] == 77, "written past the end at offset %zu", offset);
    }
}

static void finds_the_first_non_finite(void)
{
    enum {
        COUNT = 70
    };
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t at = 0; at < COUNT; at++) {
        float values[COUNT];
        for (size_t i = 0; i < COUNT; i++)
            values[i] = i % 2 ? 0x1.fffffep127f : -0x1p-149f;
        CHECK(attn_first_non_finite(values, COUNT) == COUNT, "all are finite");
        values[at] = bad[at % 4];
        values[COUNT - 1] = at % 3 ? values[COUNT - 1] : NAN;
        size_t found = attn_first_non_finite(values, COUNT);
        CHECK(found == at, "found at %zu, expected %zu", found, at);
        CHECK(attn_first_non_finite(values, at) == at, "what is past the end counts, at %zu", at);
    }
}

static const test_case cases[] = {
    {"names and sizes", names_and_sizes},
    {"every half", every_half},
    {"every bfloat", every_bfloat},
    {"doubles round to nearest", doubles_round_to_nearest},
    {"rounds to BF16", rounds_to_bf16},
    {"unaligned", unaligned},
    {"finds the first non-finite", finds_the_first_non_finite},
    {NULL, NULL},
};

int main(void)
{
    return test_main("dtype", cases);
}
