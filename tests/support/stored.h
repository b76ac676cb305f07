/* Hold the safetensors reader against jansson's reading of the whole header, and against what the
 * writer makes of what was read. Shared by the test and the fuzzer. */
#ifndef TESTS_STORED_H
#define TESTS_STORED_H

#include <stdbool.h>
#include <stddef.h>

/* Read the text. NULL when the reader took it rightly, or refused it with a proper error; else what
 * is wrong. */
const char *stored_fault(const void *bytes, size_t size, bool *accepted);

#endif
