/* libFuzzer target: the JSON files of a model folder.
 *
 * The first byte says which: 'c' config.json, 'a' adapter_config.json, 'i' the index of shards; the
 * rest is the file. What is accepted lies within the bounds that the headers state; what is refused
 * is so in one printable sentence that names the file. The index stands in a folder of its own,
 * with one shard to find. */
#include "model/adapter_config.h"
#include "model/config.h"
#include "model/weights.h"
#include "tests/support/folder.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what, const char *which)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, which);
        abort();
    }
}

static void check_text(const char *text)
{
    for (const char *c = text; *c; c++)
        require(*c >= ' ' && *c <= '~', "a sentence cannot be printed", text);
}

static void check_refusal(attn_status status, const attn_error *error, const char *what)
{
    require(status != ATTN_OK && error->status == status, "another status", error->message);
    require(strstr(error->message, what) != NULL, "the file is not named", error->message);
    check_text(error->message);
    check_text(error->param);
}

static void check_warnings(const attn_warnings *warnings)
{
    require(warnings->count <= ATTN_WARNINGS_MAX, "too many warnings", "");
    for (int i = 0; i < warnings->count; i++)
        check_text(warnings->text[i]);
}

/* config.json */

static void check_size(int64_t size)
{
    require(size >= 0 && size <= INT32_MAX, "a size is out of range", "");
}

static void check_backend(const attn_backend_config *b)
{
    const int64_t sizes[] = {b->mix.window,
                             b->mix.stride,
                             b->mix.summary,
                             b->mix.k,
                             b->mix.projection_length,
                             b->mix.features,
                             b->mamba.d_state,
                             b->mamba.d_conv,
                             b->mamba.expand,
                             b->mamba.dt_rank,
                             b->mamba.d_inner};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_size(sizes[i]);
    require(b->backend < ATTN_BACKENDS, "no such backend", "");
    require(b->mix.pattern <= ATTN_LOCAL && b->mix.norm <= ATTN_NORM_SQRT, "no such choice", "");
    require(b->mamba.variant <= ATTN_MAMBA_ARTICLE && b->mamba.conv_bias <= ATTN_YES,
            "no such variant", "");
}

static void check_layer(const attn_layer_config *layer)
{
    check_backend(&layer->mixer);
    check_size(layer->feed_forward.intermediate_size);
    require(layer->norm.kind <= ATTN_NORMALIZATION_RMS, "no such norm", "");
    require(layer->norm.epsilon >= 0 && layer->norm.epsilon <= 1, "epsilon", "");
    require(layer->feed_forward.activation <= ATTN_SILU, "no such activation", "");
}

static void check_config(const attn_model_config *config)
{
    check_size(config->hidden_size);
    check_size(config->head_dim);
    require(config->heads == 0 || config->kv_heads > 0, "no kv heads", "");
    require(config->kv_heads == 0 || config->heads % config->kv_heads == 0, "kv heads", "");
    require(config->causal <= ATTN_CAUSAL_EITHER && config->type <= ATTN_MODEL_MAMBA, "enum", "");
    require(config->backend_count >= 0 && config->backend_count <= ATTN_BACKENDS, "backends", "");
    for (int i = 0; i < config->backend_count; i++)
        check_backend(&config->backends[i]);
    require(config->layer_count >= 0 && config->layer_count <= ATTN_LAYERS_MAX, "layers", "");
    require(config->type == ATTN_MODEL_LAYER || config->listed > 0, "no layer", "");
    for (int i = 0; i < config->listed; i++)
        check_layer(attn_model_config_layer(config, i));
    check_warnings(&config->warnings);
}

static void fuzz_config(const char *text, size_t size)
{
    attn_model_config config;
    attn_error error = {0};
    attn_status status = attn_model_config_parse(text, size, "config.json", &config, &error);
    if (status != ATTN_OK) {
        check_refusal(status, &error, "config.json: ");
        return;
    }
    check_config(&config);
    attn_model_config_free(&config);
}

/* adapter_config.json */

static void fuzz_adapter(const char *text, size_t size)
{
    attn_adapter_config config;
    attn_warnings warnings = {0};
    attn_error error = {0};
    attn_status status =
        attn_adapter_config_parse(text, size, "adapter_config.json", &config, &warnings, &error);
    if (status != ATTN_OK) {
        check_refusal(status, &error, "adapter_config.json: ");
        return;
    }
    static const char *const modules[] = {"q_proj", "layers.0.q_proj", "mixer.in_proj"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        int64_t rank = attn_adapter_config_rank(&config, modules[i]);
        require(rank >= 1 && rank <= 65536, "a rank is out of range", modules[i]);
        require(isfinite(attn_adapter_config_scale(&config, modules[i])), "scale", modules[i]);
    }
    check_warnings(&warnings);
    attn_adapter_config_free(&config);
}

/* The index, and a checkpoint */

/* Open the folder's checkpoint and remove the folder; NULL: refused, rightly. */
static attn_weights *open_and_close(const test_folder *folder)
{
    attn_error error = {0};
    attn_weights *weights = attn_weights_open(folder->path, "model", &error);
    if (!weights)
        check_refusal(error.status, &error, folder->path);
    folder_close(folder);
    return weights;
}

static void fuzz_index(const char *text, size_t size)
{
    static const float value = 3;
    static const attn_stored tensor = {
        .name = "a", .rank = 1, .dim = {1}, .data = (const void *)&value};
    test_folder folder = folder_open();
    folder_tensors(&folder, "s.safetensors", &tensor, 1);
    folder_write(&folder, "model.safetensors.index.json", text, size);
    attn_weights *weights = open_and_close(&folder);
    if (!weights)
        return;
    attn_error error = {0};
    require(attn_weights_count(weights) == 1, "more tensors than there are", "");
    const float *a = attn_weights_floats(weights, "", "a", ATTN_DIMS(1), &error);
    require(a && *a == value, "the tensor is not as it was written", error.message);
    attn_weights_close(weights);
}

/* Take the tensor in every way; what is handed out is finite. */
static void take(attn_weights *weights, const attn_stored *stored)
{
    attn_error error = {0};
    const float *flat =
        attn_weights_floats(weights, "", stored->name, stored->rank, stored->dim, &error);
    require(!flat || attn_first_non_finite(flat, stored->count) == stored->count, "not finite", "");
    require(flat || error.message[0], "no message", stored->name);
    if (stored->rank != 2)
        return;
    attn_matrix matrix;
    attn_error again = {0}, once_more = {0};
    attn_status status =
        attn_weights_matrix(weights, "", stored->name, stored->dim[0], ATTN_ANY, &matrix, &again);
    const float *across =
        attn_weights_transposed(weights, "", stored->name, ATTN_ANY, stored->dim[1], &once_more);
    require((status == ATTN_OK) == (flat != NULL) && (across != NULL) == (flat != NULL),
            "taken in one way only", stored->name);
    require(!flat || across[stored->count - 1] == flat[stored->count - 1], "another last", "");
}

static void fuzz_checkpoint(const char *text, size_t size)
{
    test_folder folder = folder_open();
    folder_write(&folder, "model.safetensors", text, size);
    attn_weights *weights = open_and_close(&folder);
    if (!weights)
        return;
    for (int i = 0; i < attn_weights_count(weights); i++)
        take(weights, attn_weights_at(weights, i));
    attn_weights_close(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    if (*data == 'c')
        fuzz_config(text, size - 1);
    if (*data == 'a')
        fuzz_adapter(text, size - 1);
    if (*data == 'i')
        fuzz_index(text, size - 1);
    if (*data == 's')
        fuzz_checkpoint(text, size - 1);
    return 0;
}
