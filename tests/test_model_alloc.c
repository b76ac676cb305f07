/* Every allocation of the loader fails once: a status that says so, and nothing is left behind. */
#include "model/adapter.h"
#include "model/config.h"
#include "model/weights.h"
#include "tests/alloc/inject.h"
#include "tests/support/folder.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum {
    ALLOCATIONS = 200 /* more than any of these makes */
};

/* Let the first, second, ... allocation of `load` fail until it succeeds with all of them. */
static void each_failure(const test_folder *folder, const char *what,
                         attn_status (*load)(const char *folder, attn_error *error))
{
    for (long number = 1; number < ALLOCATIONS; number++) {
        attn_error error = {0};
        long live = inject_live();
        inject_start(number, false);
        attn_status status = load(folder->path, &error);
        bool failed = inject_stop();
        CHECK(inject_live() == live, "%s: allocation %ld: %ld blocks are left", what, number,
              inject_live() - live);
        if (!failed) {
            CHECK(status == ATTN_OK && number > 1, "%s: %s", what, error.message);
            return;
        }
        CHECK(status == ATTN_NO_MEMORY, "%s: allocation %ld: %s (%s)", what, number,
              attn_status_name(status), error.message);
        CHECK(strstr(error.message, "memory") != NULL, "%s", error.message);
    }
    CHECK(false, "%s makes more than %d allocations", what, ALLOCATIONS);
}

/* Weights: one file, shards */

static const double numbers[6] = {1, 2, 3, 4, 5, 6};
static const attn_stored tensors[] = {
    {.name = "w", .dtype = ATTN_FP64, .rank = 2, .dim = {2, 3}, .data = (const void *)numbers},
};

static attn_status load_weights(const char *folder, attn_error *error)
{
    attn_weights *weights = attn_weights_open(folder, "model", error);
    if (!weights)
        return error->status;
    attn_matrix matrix;
    attn_status status = attn_weights_matrix(weights, "", "w", 2, 3, &matrix, error);
    if (status == ATTN_OK && !attn_weights_transposed(weights, "", "w", 2, 3, error))
        status = error->status;
    attn_weights_close(weights);
    return status;
}

static void weights(void)
{
    test_folder folder = folder_open();
    folder_tensors(&folder, "model.safetensors", tensors, 1);
    each_failure(&folder, "weights", load_weights);
    folder_close(&folder);
}

static void shards(void)
{
    test_folder folder = folder_open();
    folder_tensors(&folder, "s.safetensors", tensors, 1);
    folder_text(&folder, "model.safetensors.index.json",
                "{\"weight_map\": {\"w\": \"s.safetensors\"}}");
    each_failure(&folder, "shards", load_weights);
    folder_close(&folder);
}

/* config.json */

static attn_status load_config(const char *folder, attn_error *error)
{
    char path[64];
    attn_model_config config;
    snprintf(path, sizeof path, "%s/config.json", folder);
    attn_status status = attn_model_config_read(path, &config, error);
    if (status == ATTN_OK)
        attn_model_config_free(&config);
    return status;
}

static void config(void)
{
    test_folder folder = folder_open();
    folder_text(&folder, "config.json",
                "{\"model_type\": \"stack\", \"layers\": [{\"mixer\": \"exact\"}]}");
    each_failure(&folder, "config.json", load_config);
    folder_close(&folder);
}

/* An adapter */

static attn_status load_adapter(const char *folder, attn_error *error)
{
    attn_adapter *adapter = attn_adapter_open(folder, error);
    if (!adapter)
        return error->status;
    attn_adapter_close(adapter);
    return ATTN_OK;
}

static void adapter(void)
{
    static const attn_stored pair[] = {{.name = "base_model.model.q.lora_A.weight",
                                        .dtype = ATTN_FP64,
                                        .rank = 2,
                                        .dim = {2, 3},
                                        .data = (const void *)numbers},
                                       {.name = "base_model.model.q.lora_B.weight",
                                        .dtype = ATTN_FP64,
                                        .rank = 2,
                                        .dim = {3, 2},
                                        .data = (const void *)numbers}};
    test_folder folder = folder_open();
    folder_tensors(&folder, "adapter_model.safetensors", pair, 2);
    folder_text(&folder, "adapter_config.json",
                "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\":"
                " [\"q\"], \"rank_pattern\": {\"q\": 2}, \"alpha_pattern\": {\"q\": 2}}");
    each_failure(&folder, "an adapter", load_adapter);
    folder_close(&folder);
}

int main(void)
{
    static const test_case cases[] = {
        {"weights", weights},    {"shards", shards}, {"config.json", config},
        {"an adapter", adapter}, {NULL, NULL},
    };
    return test_main("model_alloc", cases);
}
