#include "server/codec/number.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Read from a copy that ends in the zeros the reader may look at. */
static srv_number read_text(const char *text, float *value, size_t *taken)
{
    size_t length = strlen(text);
    char *copy = calloc(1, length + SRV_NUMBER_PADDING);
    if (!copy)
        abort();
    memcpy(copy, text, length);
    const char *at = copy;
    srv_number result = srv_number_read(&at, value);
    *taken = (size_t)(at - copy);
    free(copy);
    return result;
}

/* The reader must agree with the double nearest to the text, rounded to float32. */
static void check_read(const char *text)
{
    float expected = (float)strtod(text, NULL), value = 77;
    size_t taken;
    srv_number result = read_text(text, &value, &taken);
    if (isinf(expected)) {
        CHECK(result == SRV_NUMBER_RANGE && taken == 0, "%s: result %d, expected range", text,
              result);
        return;
    }
    CHECK(result == SRV_NUMBER_OK && taken == strlen(text), "%s: result %d, %zu taken", text,
          result, taken);
    CHECK(bits_of(value) == bits_of(expected), "%s: read %a, expected %a", text, (double)value,
          (double)expected);
}

static void grammar(void)
{
    static const struct {
        const char *text;
        size_t taken; /* 0: not a number */
    } texts[] = {
        {"0", 1},    {"-0", 2},       {"10", 2},        {"0.5", 3},       {"1e5", 3},
        {"1E+5", 4}, {"1e-05", 5},    {"0e0", 3},       {"-0.0e-0", 7},   {"1,2", 1},
        {"1]", 1},   {"0x10", 1},     {"12 ", 2},       {"1.5.5", 3},     {"1-2", 1},
        {"", 0},     {"-", 0},        {"+1", 0},        {".5", 0},        {"1.", 0},
        {"1.e5", 0}, {"-.5", 0},      {"01", 0},        {"-01", 0},       {"00", 0},
        {"1e", 0},   {"1e+", 0},      {"1e-", 0},       {"1.5e", 0},      {"NaN", 0},
        {"nan", 0},  {"inf", 0},      {"Infinity", 0},  {"-Infinity", 0}, {"--1", 0},
        {"e5", 0},   {"00000000", 0}, {"012345678", 0}, {"1e .", 0},      {"\xff", 0},
        {" 1", 0},   {"\"1\"", 0},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        float value = 77;
        size_t taken;
        srv_number result = read_text(texts[i].text, &value, &taken);
        srv_number expected = texts[i].taken ? SRV_NUMBER_OK : SRV_NUMBER_NONE;
        CHECK(result == expected && taken == texts[i].taken, "\"%s\": result %d, %zu taken",
              texts[i].text, result, taken);
        CHECK(result == SRV_NUMBER_OK || bits_of(value) == bits_of(77), "\"%s\" changed the value",
              texts[i].text);
    }
}

/* The middle between FLT_MAX and 2^128 is 3.40282356779733661637...e38; a tie rounds away. */
static void float_boundaries(void)
{
    static const char *const texts[] = {
        "3.4028234e38",
        "3.4028235e38",
        "3.4028236e38",
        "340282346638528859811704183484516925440",
        "3.40282356e38",
        "3.4028235677973362e38",
        "3.4028235677973366e38",
        "3.4028235677973367e38",
        "1e38",
        "1e39",
        "-1e39",
        "1e308",
        "1e309",
        "-1e309",
        "1e400",
        "1e99999999999999999999",
        "1e-37",
        "1.17549435e-38",
        "1.1754942e-38",
        "1e-45",
        "1.4e-45",
        "7.0e-46",
        "7.1e-46",
        "1e-46",
        "1e-400",
        "-1e-400",
        "1e-99999999999999999999",
        "0e99999999999999999999",
        "4.9406564584124654e-324",
        "2.2250738585072011e-308",
        "16777217",
        "16777219",
        "16777217.000000001",
        "9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "9223372036854775808",
        "1.00000005960464477539062",
        "1.00000005960464477539063",
        "1.00000005960464488641292746",
        "0.1",
        "7.6",
        "1.23456789",
        "-0.0",
        "5e-324",
        "0.000000000000000000000000000000000000000000000000000000000000000000001e69",
        "100000000000000000000000000000000000000000000000000000000000000000000e-68",
        "12345678901234567890123456789012345678901234567890e-50",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_read(texts[i]);
    float value;
    size_t taken;
    CHECK(read_text("3.4028235e38", &value, &taken) == SRV_NUMBER_OK && value == FLT_MAX,
          "FLT_MAX is read");
    CHECK(read_text("3.4028236e38", &value, &taken) == SRV_NUMBER_RANGE,
          "3.4028236e38 is nearer to 2^128 than to FLT_MAX");
    CHECK(read_text("1e-400", &value, &taken) == SRV_NUMBER_OK && bits_of(value) == 0,
          "1e-400 is 0");
}

static void powers_of_ten(void)
{
    static const char *const mantissas[] = {"1",
                                            "9.99999999",
                                            "1.00000001",
                                            "5",
                                            "1234567890123456",
                                            "0.12345678901234567",
                                            "99999999999999999999"};
    for (size_t m = 0; m < sizeof mantissas / sizeof *mantissas; m++) {
        for (int exponent = -360; exponent <= 320; exponent++) {
            char text[64];
            snprintf(text, sizeof text, "%se%d", mantissas[m], exponent);
            check_read(text);
        }
    }
}

/* Decimals around the middle between two floats, where the last digit decides. */
static void near_ties(void)
{
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) {
        float below = float_of((uint32_t)(next_random(&state) % 0x7f7fffff));
        double middle = ((double)below + (double)nextafterf(below, INFINITY)) / 2;
        for (int digits = 9; digits <= 21; digits++) {
            char text[64];
            snprintf(text, sizeof text, "%.*e", digits - 1, middle);
            check_read(text);
        }
        char text[400];
        snprintf(text, sizeof text, "%.17f", middle < 1e9 ? middle : 1.5);
        check_read(text);
    }
}

static void random_decimals(void)
{
    uint64_t state = 2;
    for (int i = 0; i < 200000; i++) {
        char text[80];
        size_t used = 0;
        int whole = (int)(next_random(&state) % 12), fraction = (int)(next_random(&state) % 22);
        if (next_random(&state) % 2)
            text[used++] = '-';
        text[used++] = whole ? (char)('1' + next_random(&state) % 9) : '0';
        for (int d = 1; d < whole; d++)
            text[used++] = (char)('0' + next_random(&state) % 10);
        if (fraction)
            text[used++] = '.';
        for (int d = 0; d < fraction; d++)
            text[used++] = (char)('0' + next_random(&state) % 10);
        int exponent = (int)(next_random(&state) % 101) - 50;
        snprintf(text + used, sizeof text - used, exponent % 3 ? "" : "e%d", exponent);
        check_read(text);
    }
}

/* The longest number is read, one character more is not, and none is scanned to a far end. */
static void length_limit(void)
{
    enum {
        FAR = 3 * SRV_NUMBER_LONGEST
    };
    char text[FAR + 1] = "0.";
    memset(text + 2, '3', FAR - 2);
    float value = 0;
    size_t taken;
    CHECK(read_text(text, &value, &taken) == SRV_NUMBER_LONG, "a number without end");
    text[SRV_NUMBER_LONGEST] = '\0';
    CHECK(read_text(text, &value, &taken) == SRV_NUMBER_LONG, "a number of %d characters",
          SRV_NUMBER_LONGEST);
    text[SRV_NUMBER_LONGEST - 1] = '\0';
    CHECK(read_text(text, &value, &taken) == SRV_NUMBER_OK && value == 1.0f / 3,
          "a number of %d characters", SRV_NUMBER_LONGEST - 1);
}

/* Significant digits, without the zeros at either end. */
static int significant(const char *text, size_t length)
{
    int digits = 0, zeros = 0;
    for (size_t i = 0; i < length && text[i] != 'e'; i++) {
        if (text[i] < '0' || text[i] > '9' || (text[i] == '0' && digits == 0))
            continue;
        zeros = text[i] == '0' ? zeros + 1 : 0;
        digits++;
    }
    return digits - zeros;
}

/* Fewest digits with which a decimal is nearer to the value than to the neighbour on the side of
 * zero, by more than the printer's doubles can tell: 1e-6 of the ninth digit. */
static int shortest(float value)
{
    double half_gap = fabs((double)value - (double)nextafterf(value, 0)) / 2;
    for (int digits = 1; digits < 9; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
        double distance = fabs(strtod(text, NULL) - (double)value);
        if (distance < half_gap - 1.1e-14 * fabs((double)value))
            return digits;
    }
    return 9;
}

/* Valid JSON, within bounds, reads back bit for bit in libc's eyes and in ours, not too long. */
static void check_print(uint32_t bits)
{
    float value = float_of(bits), back = 77;
    char text[SRV_NUMBER_MAX + 2];
    memset(text, '#', sizeof text);
    size_t length = srv_number_print(value, text), taken;
    CHECK(text[SRV_NUMBER_MAX] == '#', "%a: wrote too far", (double)value);
    CHECK(length >= 1 && length <= 16, "%a: %zu characters", (double)value, length);
    text[length] = '\0';
    CHECK(read_text(text, &back, &taken) == SRV_NUMBER_OK && taken == length,
          "%a: \"%s\" is not a number", (double)value, text);
    CHECK(bits_of(back) == bits, "%a: \"%s\" reads back as %a", (double)value, text, (double)back);
    CHECK(bits_of((float)strtod(text, NULL)) == bits, "%a: strtod reads \"%s\" otherwise",
          (double)value, text);
    int digits = significant(text, length), fewest = value == 0 ? 0 : shortest(value);
    CHECK(digits <= fewest && digits <= 9, "%a: \"%s\", %d digits would do", (double)value, text,
          fewest);
}

static void prints_random_bits(void)
{
    uint64_t state = 3;
    for (int i = 0; i < 400000; i++) {
        uint32_t bits = (uint32_t)(next_random(&state) >> 32);
        if ((bits & 0x7f800000) != 0x7f800000)
            check_print(bits);
    }
}

static void prints_boundaries(void)
{
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (uint32_t m = 0; m < 40; m++) {
            check_print(exponent << 23 | m);
            check_print(exponent << 23 | (0x7fffff - m));
            check_print(0x80000000 | exponent << 23 | m * 0x31415);
        }
    }
    for (int exponent = -45; exponent <= 38; exponent++) {
        char text[16];
        snprintf(text, sizeof text, "1e%d", exponent);
        uint32_t bits = bits_of(strtof(text, NULL));
        for (int step = -20; step <= 20; step++)
            if ((int64_t)bits + step >= 0)
                check_print((uint32_t)((int64_t)bits + step));
    }
    for (uint32_t subnormal = 0; subnormal < 20000; subnormal++)
        check_print(subnormal);
}

static void prints_as_a_person_would(void)
{
    static const struct {
        float value;
        const char *text;
    } pairs[] = {
        {0.0f, "0"},
        {-0.0f, "-0.0"},
        {1.0f, "1"},
        {-1.0f, "-1"},
        {0.1f, "0.1"},
        {7.6f, "7.6"},
        {-0.5f, "-0.5"},
        {100.0f, "100"},
        {1.23456789f, "1.2345679"},
        {16777216.0f, "16777216"},
        {999999999.0f, "1e9"},
        {123456.78f, "123456.78"},
        {1e-5f, "0.00001"},
        {1.5e-6f, "1.5e-6"},
        {1e20f, "1e20"},
        {FLT_MAX, "3.4028235e38"},
        {-FLT_MAX, "-3.4028235e38"},
        {1e-45f, "1e-45"},
        {0.2f + 0.1f, "0.3"},
        {1e8f, "100000000"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[SRV_NUMBER_MAX + 1];
        text[srv_number_print(pairs[i].value, text)] = '\0';
        CHECK(strcmp(text, pairs[i].text) == 0, "%a: \"%s\", expected \"%s\"",
              (double)pairs[i].value, text, pairs[i].text);
    }
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        char text[SRV_NUMBER_MAX];
        CHECK(srv_number_print(odd[i], text) == 4 && memcmp(text, "null", 4) == 0, "odd %zu", i);
    }
}

static const test_case cases[] = {
    {"grammar", grammar},
    {"float boundaries", float_boundaries},
    {"powers of ten", powers_of_ten},
    {"near ties", near_ties},
    {"random decimals", random_decimals},
    {"length limit", length_limit},
    {"prints random bits", prints_random_bits},
    {"prints boundaries", prints_boundaries},
    {"prints as a person would", prints_as_a_person_would},
    {NULL, NULL},
};

int main(void)
{
    return test_main("number", cases);
}
