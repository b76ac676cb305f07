/* Reading: eight digits at a time into an integer, then one double operation where that is known to
 * give the right float32; strtod decides the rest. Printing: scale to nine digits before the point
 * in double, then take the roundest decimal that is nearer to the value than to any other float32.
 * A double carries 29 bits more than a float32, so both need no wide integers and no big tables. */
#include "server/codec/number.h"

#include <endian.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    POWER_MIN = -45,
    EXACT_POWER = 22 /* the largest power of ten that a double holds exactly */
};

static const double powers[] = {
    1e-45, 1e-44, 1e-43, 1e-42, 1e-41, 1e-40, 1e-39, 1e-38, 1e-37, 1e-36, 1e-35, 1e-34, 1e-33,
    1e-32, 1e-31, 1e-30, 1e-29, 1e-28, 1e-27, 1e-26, 1e-25, 1e-24, 1e-23, 1e-22, 1e-21, 1e-20,
    1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9,  1e-8,  1e-7,
    1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1,  1e0,   1e1,   1e2,   1e3,   1e4,   1e5,   1e6,
    1e7,   1e8,   1e9,   1e10,  1e11,  1e12,  1e13,  1e14,  1e15,  1e16,  1e17,  1e18,  1e19,
    1e20,  1e21,  1e22,  1e23,  1e24,  1e25,  1e26,  1e27,  1e28,  1e29,  1e30,  1e31,  1e32,
    1e33,  1e34,  1e35,  1e36,  1e37,  1e38,  1e39,  1e40,  1e41,  1e42,  1e43,  1e44,  1e45,
    1e46,  1e47,  1e48,  1e49,  1e50,  1e51,  1e52,  1e53,
};

static inline double power_of_ten(int exponent)
{
    return powers[exponent - POWER_MIN];
}

/* Reading */

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static inline uint64_t load_eight(const char *text)
{
    uint64_t bytes;
    memcpy(&bytes, text, sizeof bytes);
    return le64toh(bytes);
}

/* How many of the eight bytes, from the lowest on, are digits: a byte is none when adding 0x46 or
 * taking 0x30 away sets its top bit. What they carry only reaches bytes above the first such. */
static inline int count_digits(uint64_t bytes)
{
    uint64_t above = bytes + 0x4646464646464646, below = bytes - 0x3030303030303030;
    uint64_t others = (above | below) & 0x8080808080808080;
    return others ? __builtin_ctzll(others) / 8 : 8;
}

/* Neighbours are joined: eight digits to four pairs, and the pairs, weighted, to their sum. */
static inline uint64_t join_eight(uint64_t digits)
{
    uint64_t pairs = digits * 10 + (digits >> 8);
    uint64_t odd = (pairs & 0x000000ff000000ff) * (100 + (1000000ull << 32));
    uint64_t even = ((pairs >> 16) & 0x000000ff000000ff) * (1 + (10000ull << 32));
    return (odd + even) >> 32;
}

/* Append the digits at `text` to *integer, which wraps when there are too many. The last few are
 * joined like eight, behind zeros: a loop over them would guess their number wrong. */
static inline const char *take_digits(const char *text, const char *stop, uint64_t *integer)
{
    static const uint64_t weights[] = {1,      10,      100,      1000,     10000,
                                       100000, 1000000, 10000000, 100000000};
    uint64_t sum = *integer;
    int count = 8;
    for (; text < stop && count == 8; text += count) {
        uint64_t bytes = load_eight(text), digits = bytes ^ 0x3030303030303030;
        count = count_digits(bytes);
        int half = 4 * (8 - count); /* shifting by 64 at once is undefined */
        sum = sum * weights[count] + join_eight(digits << half << half);
    }
    *integer = sum;
    return text;
}

/* The digits after 'e'; held far outside of what a double can be when they are many. */
static const char *take_exponent(const char *text, const char *stop, int *exponent)
{
    bool negative = *text == '-';
    text += *text == '-' || *text == '+';
    const char *first = text;
    int sum = 0;
    for (; text < stop && is_digit(*text); text++)
        sum = sum < 100000 ? sum * 10 + (*text - '0') : sum;
    *exponent = negative ? -sum : sum;
    return text > first ? text : NULL;
}

/* integer * 10^exponent, off by at most 2.5 units of the last place of a double: the integer, the
 * power and the product are rounded. That matters only so near to the middle between two float32,
 * where the 29 bits that go are 1000...0. False there, and where the power is beyond the table's
 * exact ones. */
static inline bool quick_value(uint64_t integer, int exponent, double *value)
{
    if (exponent < -EXACT_POWER || exponent > EXACT_POWER)
        return false;
    *value = (double)integer * power_of_ten(exponent);
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    uint64_t beyond_float = bits & ((1u << 29) - 1), middle = 1u << 28;
    return *value <= FLT_MAX && beyond_float - (middle - 4) > 8;
}

srv_number srv_number_read(const char **text, float *value)
{
    const char *stop = *text + SRV_NUMBER_LONGEST, *at = *text;
    bool negative = *at == '-';
    at += negative;
    const char *first = at;
    uint64_t integer = 0;
    at = take_digits(at, stop, &integer);
    bool leading_zero = *first == '0';
    if (at == first || (leading_zero && at > first + 1))
        return SRV_NUMBER_NONE;
    ptrdiff_t digits = leading_zero ? 0 : at - first;
    int exponent = 0;
    if (*at == '.') {
        const char *fraction = ++at;
        at = take_digits(at, stop, &integer);
        if (at == fraction)
            return SRV_NUMBER_NONE;
        digits += at - fraction;
        exponent = -(int)(at - fraction);
    }
    if (*at == 'e' || *at == 'E') {
        int shift;
        at = take_exponent(at + 1, stop, &shift);
        if (!at)
            return SRV_NUMBER_NONE;
        exponent += shift;
    }
    if (at >= stop)
        return SRV_NUMBER_LONG;
    double wide;
    if (digits > 19 || !quick_value(integer, exponent, &wide))
        wide = fabs(strtod(*text, NULL));
    float narrow = (float)(negative ? -wide : wide);
    if (isinf(narrow))
        return SRV_NUMBER_RANGE;
    *value = narrow;
    *text = at;
    return SRV_NUMBER_OK;
}

/* Printing */

/* floor(log10(value)) for a finite double > 0 within float32's range. */
static inline int decimal_exponent(double value, int binary_exponent)
{
    int guess = (binary_exponent * 78913) >> 18; /* log10(2) * 2^18, rounded */
    return guess + (value >= power_of_ten(guess + 1));
}

/* The multiple of an even `step` nearest to a number whose whole part is given. */
static inline uint32_t nearest_multiple(uint32_t whole, uint32_t step)
{
    return (whole + step / 2) / step * step;
}

/* An integer within `room` of `scaled` (nine digits before the point) with the most zeros at its
 * end that can be had, or else the nearest. */
static inline uint32_t roundest(double scaled, double room)
{
    uint32_t whole = (uint32_t)scaled;
    if (room > 100) { /* only subnormals are so coarse */
        for (uint32_t step = 100000000; step > 100; step /= 10) {
            uint32_t round = nearest_multiple(whole, step);
            if (fabs(round - scaled) < room)
                return round;
        }
    }
    uint32_t thousands = nearest_multiple(whole, 1000);
    if (fabs(thousands - scaled) < room)
        return thousands;
    uint32_t hundreds = nearest_multiple(whole, 100);
    if (fabs(hundreds - scaled) < room)
        return hundreds;
    uint32_t tens = nearest_multiple(whole, 10);
    return fabs(tens - scaled) < room ? tens : (uint32_t)(scaled + 0.5);
}

/* How far a decimal may be from the float32 with these bits (sign cleared) and still read as it:
 * half the gap to the nearer neighbour, which below a power of two is half as wide. */
static inline double half_gap(uint32_t bits, int binary_exponent)
{
    bool subnormal = bits < 1u << 23, power_of_two = (bits & 0x7fffff) == 0 && bits > 1u << 23;
    int exponent = subnormal ? -150 : binary_exponent - (power_of_two ? 25 : 24);
    uint64_t wide = (uint64_t)(exponent + 1023) << 52;
    double gap;
    memcpy(&gap, &wide, sizeof gap);
    return gap;
}

/* The eight digits of `value` as bytes 0..9, first digit in the lowest byte. */
static inline uint64_t split_eight(uint32_t value)
{
    uint64_t fours = value / 10000 | (uint64_t)(value % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007f;
    uint64_t twos = hundreds | (fours - hundreds * 100) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000f;
    return tens | (twos - tens * 10) << 8;
}

/* Write the nine digits of `value` and return how many there are before the trailing zeros. */
static inline int split_nine(uint32_t value, char *digits)
{
    uint64_t tail = split_eight(value % 100000000);
    uint64_t text = htole64(tail + 0x3030303030303030);
    digits[0] = (char)('0' + value / 100000000);
    memcpy(digits + 1, &text, sizeof text);
    return tail ? 9 - __builtin_clzll(tail) / 8 : 1;
}

/* The layouts copy whole words and return the length that counts. */

static inline size_t print_small(const char *digits, int count, int exponent, char *to)
{
    memcpy(to, "0.000000", 8);
    memcpy(to + 1 - exponent, digits, 9);
    return (size_t)(1 - exponent + count);
}

static inline size_t print_fixed(const char *digits, int count, int exponent, char *to)
{
    int whole = exponent + 1;
    memcpy(to, digits, 9);
    if (count <= whole)
        return (size_t)whole;
    to[whole] = '.';
    memcpy(to + whole + 1, digits + whole, 8);
    return (size_t)count + 1;
}

static size_t print_scientific(const char *digits, int count, int exponent, char *to)
{
    size_t length = print_fixed(digits, count, 0, to);
    to[length++] = 'e';
    if (exponent < 0)
        to[length++] = '-';
    int size = abs(exponent);
    if (size >= 10)
        to[length++] = (char)('0' + size / 10);
    to[length++] = (char)('0' + size % 10);
    return length;
}

static inline size_t print_positive(float value, uint32_t bits, char *to)
{
    double wide = value;
    uint64_t wide_bits;
    memcpy(&wide_bits, &wide, sizeof wide_bits);
    int binary_exponent = (int)(wide_bits >> 52) - 1023;
    int exponent = decimal_exponent(wide, binary_exponent);
    double scale = power_of_ten(8 - exponent);
    /* The roundings of `scale` and of the two products add up to less than 1e-6. */
    double room = half_gap(bits, binary_exponent) * scale - 1e-6;
    uint32_t decimal = roundest(wide * scale, room);
    if (decimal >= 1000000000) {
        decimal /= 10;
        exponent++;
    }
    char digits[24] = {0};
    int count = split_nine(decimal, digits);
    if (exponent < -5 || exponent > 8)
        return print_scientific(digits, count, exponent, to);
    return exponent < 0 ? print_small(digits, count, exponent, to)
                        : print_fixed(digits, count, exponent, to);
}

size_t srv_number_print(float value, char *to)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    size_t sign = bits >> 31;
    bits &= 0x7fffffff;
    if (bits >= 0x7f800000) {
        memcpy(to, "null", 4);
        return 4;
    }
    if (bits == 0) {
        memcpy(to, "-0.0", 4);
        to[0] = sign ? '-' : '0';
        return sign ? 4 : 1;
    }
    to[0] = '-';
    return sign + print_positive(sign ? -value : value, bits, to + sign);
}
