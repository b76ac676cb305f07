/* libFuzzer target: the safetensors reader on any bytes at all, and the writer on what it accepts.
 *
 *   clang -g -O1 -std=c11 -D_GNU_SOURCE -Iinclude -Icore -I. -fsanitize=fuzzer,address,undefined \
 *       tests/fuzz_safetensors.c tests/support/stored.c core/safetensors*.c core/quote.c \
 *       core/status.c core/dtype.c -ljansson
 *
 * Start it on a copy of tests/corpus/safetensors. Every input is read twice: with the length that
 * it gives, and with the one that reaches to its last brace, since a mutation that makes the header
 * longer would else seldom get past the length. */
#include "tests/support/stored.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Make the length reach to the last brace. */
static void mend(uint8_t *bytes, size_t size)
{
    size_t length = size - 8;
    while (length > 0 && bytes[8 + length - 1] != '}')
        length--;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)length >> 8 * i);
}

static void require_sound(const uint8_t *bytes, size_t size)
{
    bool accepted;
    const char *fault = stored_fault(bytes, size, &accepted);
    if (fault) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    require_sound(data, size);
    uint8_t *bytes = size > 8 ? malloc(size) : NULL;
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    mend(bytes, size);
    require_sound(bytes, size);
    free(bytes);
    return 0;
}
