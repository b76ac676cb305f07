/* Element types of safetensors, and the room that a tensor of one takes. Only the floating-point
 * types that attn/dtype.h converts are readable; the rest are known so that their sizes can be
 * checked. A type that is not in the list may be newer than this code: its file still opens. */
#include "safetensors.h"

#include <string.h>

static const attn_stored_type types[] = {
    {"F32", 32, true, ATTN_FP32},   {"F16", 16, true, ATTN_FP16},   {"BF16", 16, true, ATTN_BF16},
    {"F64", 64, true, ATTN_FP64},   {.name = "BOOL", .bits = 8},    {.name = "U8", .bits = 8},
    {.name = "I8", .bits = 8},      {.name = "U16", .bits = 16},    {.name = "I16", .bits = 16},
    {.name = "U32", .bits = 32},    {.name = "I32", .bits = 32},    {.name = "U64", .bits = 64},
    {.name = "I64", .bits = 64},    {.name = "C64", .bits = 64},    {.name = "F8_E5M2", .bits = 8},
    {.name = "F8_E4M3", .bits = 8}, {.name = "F8_E8M0", .bits = 8}, {.name = "F6_E2M3", .bits = 6},
    {.name = "F6_E3M2", .bits = 6}, {.name = "F4", .bits = 4},
};

const attn_stored_type *attn_stored_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const attn_stored_type *attn_stored_type_of(attn_dtype dtype)
{
    const attn_stored_type *type = types;
    while (!type->readable || type->dtype != dtype)
        type++;
    return type;
}

bool attn_stored_measure(attn_stored *stored, int bits)
{
    int64_t product = bits;
    bool empty = false;
    for (int i = 0; i < stored->rank; i++) {
        empty = empty || stored->dim[i] == 0;
        if (stored->dim[i] != 0 && __builtin_mul_overflow(product, stored->dim[i], &product))
            return false;
    }
    stored->count = empty ? 0 : (size_t)(product / bits);
    stored->bytes = empty ? 0 : (size_t)(product / 8);
    return empty || product % 8 == 0;
}
