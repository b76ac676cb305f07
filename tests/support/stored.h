/* Texts in the safetensors format for tests, and a check that holds the reader against jansson's
 * reading of the whole header and against what the writer makes of what was read; the fuzzer shares
 * it. */
#ifndef TESTS_STORED_H
#define TESTS_STORED_H

#include <stdbool.h>
#include <stddef.h>

/* A text in memory of its own, as large as it is: one byte too far is seen by the sanitizer. */
typedef struct stored_text {
    unsigned char *bytes; /* owned: free() it */
    size_t size;
} stored_text;

/* Length, header and `data_bytes` bytes counting from 0. */
stored_text stored_text_make(const char *header, size_t length, size_t data_bytes);

/* `bytes` of memory; without it the test ends. */
void *stored_memory(size_t bytes);

/* Read the text. NULL when the reader took it rightly, or refused it with a proper error; else what
 * is wrong. */
const char *stored_fault(const void *bytes, size_t size, bool *accepted);

#endif
