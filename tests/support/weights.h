/* The checkpoint of a test's folder. */
#ifndef TESTS_WEIGHTS_H
#define TESTS_WEIGHTS_H

#include "model/weights.h"
#include "tests/support/folder.h"

/* Opened; without it the test ends. */
attn_weights *weights_need(const test_folder *folder);

/* Check that opening is refused with this status and sentence. */
void weights_refused(const test_folder *folder, attn_status status, const char *expected);

/* A header, and bytes that count from 0 behind it, as model.safetensors. */
void weights_write(const test_folder *folder, const char *header, size_t data_bytes);

#endif
