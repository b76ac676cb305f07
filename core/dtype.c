/* Element types at the door: names, sizes, and the widening or narrowing to float32. Plain scalar
 * code; it runs at the speed of memory for the sizes that requests have. */
#include "attn/dtype.h"

#include <endian.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [ATTN_FP32] = {"FP32", 4},
    [ATTN_FP16] = {"FP16", 2},
    [ATTN_BF16] = {"BF16", 2},
    [ATTN_FP64] = {"FP64", 8},
};

const char *attn_dtype_name(attn_dtype dtype)
{
    return dtypes[dtype].name;
}

bool attn_dtype_find(const char *name, attn_dtype *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype = (attn_dtype)i;
            return true;
        }
    }
    return false;
}

size_t attn_dtype_bytes(attn_dtype dtype)
{
    return dtypes[dtype].bytes;
}

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Moved into float32's fields, a half is too small by 2^112; one exact product mends that, and
 * normalises the subnormals on the way. */
static float float_from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    if (magnitude >= 0x0f800000) /* infinity or NaN */
        return float_from_bits(sign | 0x7f800000 | (magnitude & 0x007fffff));
    float value = float_from_bits(magnitude) * 0x1p112f;
    return sign ? -value : value;
}

static void convert_fp32(const unsigned char *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++, from += sizeof(uint32_t)) {
        uint32_t bits;
        memcpy(&bits, from, sizeof bits);
        to[i] = float_from_bits(le32toh(bits));
    }
}

static void convert_fp16(const unsigned char *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++, from += sizeof(uint16_t)) {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        to[i] = float_from_half(le16toh(bits));
    }
}

static void convert_bf16(const unsigned char *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++, from += sizeof(uint16_t)) {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        to[i] = float_from_bits((uint32_t)le16toh(bits) << 16);
    }
}

static void convert_fp64(const unsigned char *from, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++, from += sizeof(uint64_t)) {
        uint64_t bits;
        memcpy(&bits, from, sizeof bits);
        bits = le64toh(bits);
        double value;
        memcpy(&value, &bits, sizeof value);
        to[i] = (float)value;
    }
}

void attn_dtype_to_float(attn_dtype dtype, const void *from, size_t count, float *to)
{
    switch (dtype) {
    case ATTN_FP32:
        convert_fp32(from, count, to);
        break;
    case ATTN_FP16:
        convert_fp16(from, count, to);
        break;
    case ATTN_BF16:
        convert_bf16(from, count, to);
        break;
    case ATTN_FP64:
        convert_fp64(from, count, to);
        break;
    }
}

uint16_t attn_bf16_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) /* rounding could carry a NaN into an infinity */
        return (uint16_t)(bits >> 16 | 0x0040);
    uint32_t even = bits >> 16 & 1;
    return (uint16_t)((bits + 0x7fff + even) >> 16);
}

size_t attn_first_non_finite(const float *values, size_t count)
{
    size_t i = 0;
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7f800000) == 0x7f800000)
            break;
    }
    return i;
}
