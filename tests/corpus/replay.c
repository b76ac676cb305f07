/* Feed a fuzz target's corpus to it, so that what was found once is tested in every build.
 *
 * Linked with a tests/fuzz_<name>.c into test_corpus_<name>, and by that name it knows its folder.
 * A target ends the process on a finding; the last line of the output then names the input. */
#include "tests/support/suite.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 20,
    CUTS = 64,    /* places a file is cut at */
    CHANGES = 64, /* places a byte of it is changed at */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *folder(void)
{
    return program_invocation_short_name + strlen("test_corpus_");
}

/* Give the target a block of exactly `size` bytes, so that a sanitizer sees the first one beyond.
 */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *block = malloc(size ? size : 1);
    CHECK(block != NULL, "no memory for %zu bytes", size);
    if (block) {
        memcpy(block, data, size);
        CHECK(LLVMFuzzerTestOneInput(block, size) == 0, "the target returns nonzero");
    }
    free(block);
}

static size_t read_file(const char *name, uint8_t *data)
{
    char path[512];
    snprintf(path, sizeof path, "tests/corpus/%s/%s", folder(), name);
    printf("%s\n", path);
    fflush(stdout);
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL, "cannot open %s", path);
    size_t size = file ? fread(data, 1, MOST_BYTES, file) : 0;
    if (file)
        fclose(file);
    return size;
}

static void each_file(void (*use)(uint8_t *data, size_t size))
{
    static uint8_t data[MOST_BYTES];
    char path[512];
    struct dirent **entries;
    snprintf(path, sizeof path, "tests/corpus/%s", folder());
    int count = scandir(path, &entries, NULL, alphasort), files = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            use(data, read_file(entries[i]->d_name, data));
            files++;
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    CHECK(files > 0, "%s holds no file", path);
}

static void use_whole(uint8_t *data, size_t size)
{
    feed(data, size);
}

static void use_cut(uint8_t *data, size_t size)
{
    size_t step = size / CUTS + 1;
    for (size_t at = 0; at < size; at += step)
        feed(data, at);
}

static void use_changed(uint8_t *data, size_t size)
{
    size_t step = size / CHANGES + 1;
    for (size_t at = 0; at < size; at += step) {
        data[at] ^= (uint8_t)(1 << at % 8);
        feed(data, size);
        data[at] ^= (uint8_t)(1 << at % 8);
    }
}

static void test_whole(void)
{
    each_file(use_whole);
}

static void test_cut(void)
{
    each_file(use_cut);
}

static void test_changed(void)
{
    each_file(use_changed);
}

int main(void)
{
    static const test_case cases[] = {
        {"every input as it is", test_whole},
        {"every input cut short", test_cut},
        {"every input with a bit changed", test_changed},
        {NULL, NULL},
    };
    return test_main(program_invocation_short_name + strlen("test_"), cases);
}
