/* Opening that has to succeed, and opening that must not. */
#include "tests/support/weights.h"

#include "tests/support/stored.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

attn_weights *weights_need(const test_folder *folder)
{
    attn_error error = {0};
    attn_weights *weights = attn_weights_open(folder->path, "model", &error);
    CHECK(weights != NULL, "refused: %s", error.message);
    if (!weights)
        abort();
    return weights;
}

void weights_refused(const test_folder *folder, attn_status status, const char *expected)
{
    attn_error error = {0};
    attn_weights *weights = attn_weights_open(folder->path, "model", &error);
    CHECK(weights == NULL, "accepted, expected %s", expected);
    CHECK(error.status == status, "%s: %s", expected, attn_status_name(error.status));
    CHECK(folder_says(folder, &error, expected), "another sentence");
    attn_weights_close(weights);
}

void weights_write(const test_folder *folder, const char *header, size_t data_bytes)
{
    stored_text made = stored_text_make(header, strlen(header), data_bytes);
    folder_write(folder, "model.safetensors", made.bytes, made.size);
    free(made.bytes);
}
