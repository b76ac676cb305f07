#include "tests/support/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void require(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

test_folder folder_open(void)
{
    test_folder folder = {.path = "/tmp/attn-test-XXXXXX"};
    require(mkdtemp(folder.path) != NULL, folder.path);
    return folder;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *at)
{
    (void)found, (void)kind, (void)at;
    return remove(path);
}

void folder_close(const test_folder *folder)
{
    enum {
        DESCRIPTORS = 8
    };
    require(nftw(folder->path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS) == 0, folder->path);
}

const char *folder_path(const test_folder *folder, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return path;
}

void folder_write(const test_folder *folder, const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(folder_path(folder, name), "wb");
    require(file && fwrite(bytes, 1, size, file) == size, name);
    require(fclose(file) == 0, name);
}

void folder_text(const test_folder *folder, const char *name, const char *text)
{
    folder_write(folder, name, text, strlen(text));
}

static size_t data_bytes(const attn_stored *tensor)
{
    size_t bytes = attn_dtype_bytes(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++)
        bytes *= (size_t)tensor->dim[i];
    return bytes;
}

void folder_tensors(const test_folder *folder, const char *name, const attn_stored *tensors,
                    int count)
{
    unsigned char *header;
    size_t size;
    attn_error error = {0};
    attn_safetensors_header(tensors, count, NULL, 0, &header, &size, &error);
    require(error.status == ATTN_OK, error.message);
    FILE *file = fopen(folder_path(folder, name), "wb");
    require(file && fwrite(header, 1, size, file) == size, name);
    for (int i = 0; i < count; i++)
        require(fwrite(tensors[i].data, 1, data_bytes(&tensors[i]), file) ==
                    data_bytes(&tensors[i]),
                name);
    require(fclose(file) == 0, name);
    free(header);
}

bool folder_says(const test_folder *folder, const attn_error *error, const char *expected)
{
    size_t length = strlen(folder->path);
    const char *text = error->message;
    bool same = strncmp(text, folder->path, length) == 0 && text[length] == '/' &&
                strcmp(text + length + 1, expected) == 0;
    if (!same)
        printf("said     %s\nexpected %s/%s\n", text, folder->path, expected);
    return same;
}
