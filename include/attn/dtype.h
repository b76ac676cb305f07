/* Element types that tensors arrive in; everything is widened or narrowed to float32 at the door.
 */
#ifndef ATTN_DTYPE_H
#define ATTN_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum attn_dtype {
    ATTN_FP32,
    ATTN_FP16,
    ATTN_BF16,
    ATTN_FP64,
} attn_dtype;

/* "FP32", "FP16", "BF16", "FP64": the Open Inference Protocol's names. */
const char *attn_dtype_name(attn_dtype dtype);
bool attn_dtype_find(const char *name, attn_dtype *dtype);
size_t attn_dtype_bytes(attn_dtype dtype);

/* Convert `count` little-endian elements at `from`, which need not be aligned, to float32. FP64 is
 * rounded to nearest; beyond float32's range it becomes an infinity, which the caller refuses. */
void attn_dtype_to_float(attn_dtype dtype, const void *from, size_t count, float *to);

/* The BF16 nearest to `value`, a tie to the even one, as native bits. Beyond the largest BF16 it is
 * an infinity; a NaN stays a (quiet) NaN. */
uint16_t attn_bf16_from_float(float value);

/* Index of the first NaN or infinity, or `count`. */
size_t attn_first_non_finite(const float *values, size_t count);

#endif
