/* libFuzzer target: the JSON files of a model folder.
 *
 * The first byte says which: 'c' config.json, 'a' adapter_config.json, 'i' the index of shards; the
 * rest is the file. What is accepted lies within the bounds that the headers state; what is refused
 * is so in one printable sentence that names the file. The index stands in a folder of its own,
 * with one shard to find. */
#include "model/adapter_config.h"
#include "model/config.h"
#include "model/weights.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* The index */

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    require(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "no file", path);
}

static void fuzz_index(const char *text, size_t size)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    char folder[] = "/dev/shm/attn-fuzz-XXXXXX", shard[64], index[64];
    char bytes[8 + sizeof header - 1 + 4] = {sizeof header - 1};
    require(mkdtemp(folder) != NULL, "no folder", folder);
    memcpy(bytes + 8, header, sizeof header - 1);
    snprintf(shard, sizeof shard, "%s/s.safetensors", folder);
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", folder);
    write_file(shard, bytes, sizeof bytes);
    write_file(index, text, size);
    attn_error error = {0};
    attn_weights *weights = attn_weights_open(folder, "model", &error);
    unlink(shard);
    unlink(index);
    rmdir(folder);
    if (!weights) {
        check_refusal(error.status, &error, folder);
        return;
    }
    require(attn_weights_count(weights) == 1, "more tensors than there are", "");
    const float *a = attn_weights_floats(weights, "", "a", ATTN_DIMS(1), &error);
    require(a && *a == 0, "the tensor is not as it was written", error.message);
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
    return 0;
}
