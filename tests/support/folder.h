/* A folder of files for tests, gone when it is closed. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include "attn/safetensors.h"

#include <stdbool.h>

typedef struct test_folder {
    char path[32];
} test_folder;

/* A fresh folder; without one the test ends. */
test_folder folder_open(void);
void folder_close(const test_folder *folder); /* files and folders in it go too */

/* The path of a name in it, in static storage that the next call overwrites. */
const char *folder_path(const test_folder *folder, const char *name);

void folder_write(const test_folder *folder, const char *name, const void *bytes, size_t size);
void folder_text(const test_folder *folder, const char *name, const char *text);

/* Write a safetensors file: tensors one after another, of each name, dtype, rank, dim, data. */
void folder_tensors(const test_folder *folder, const char *name, const attn_stored *tensors,
                    int count);

/* Whether the message is the folder's path, '/' and `expected`; prints it if not. */
bool folder_says(const test_folder *folder, const attn_error *error, const char *expected);

#endif
