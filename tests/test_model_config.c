#include "model/config.h"
#include "tests/support/folder.h"
#include "tests/support/stored.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attn_model_config need_parse(const char *text)
{
    attn_model_config config;
    attn_error error = {0};
    attn_status status =
        attn_model_config_parse(text, strlen(text), "config.json", &config, &error);
    CHECK(status == ATTN_OK, "refused: %s", error.message);
    if (status != ATTN_OK)
        abort();
    return config;
}

/* A config that says nothing that could be warned of. */
static attn_model_config need_silent(const char *text)
{
    attn_model_config config = need_parse(text);
    CHECK(config.warnings.count == 0, "warns: %s", config.warnings.text[0]);
    return config;
}

/* "layer" */

static void a_layer(void)
{
    attn_model_config config = need_silent(
        "{\"model_type\": \"layer\", \"hidden_size\": 256, \"num_attention_heads\": 4,"
        " \"num_key_value_heads\": 2, \"causal\": false,"
        " \"backends\": {\"window\": {\"window\": 128}, \"exact\": {}, \"sparse\": {\"pattern\":"
        " \"fixed\", \"stride\": 32, \"summary\": 4}, \"linformer\": {\"k\": 64, \"seq_len\": 1024,"
        " \"trained\": true}, \"performer\": {\"features\": 128, \"seed\": 7, \"orthogonal\": "
        "false,"
        " \"norm\": \"sqrt\"}, \"mamba\": {\"d_state\": 16, \"d_conv\": 4, \"expand\": 2,"
        " \"dt_rank\": 1, \"variant\": \"article\", \"discretization\": \"article\"},"
        " \"hybrid\": {\"window\": 64}}}");
    static const attn_backend order[] = {
        ATTN_BACKEND_WINDOW,    ATTN_BACKEND_EXACT, ATTN_BACKEND_SPARSE, ATTN_BACKEND_LINFORMER,
        ATTN_BACKEND_PERFORMER, ATTN_BACKEND_MAMBA, ATTN_BACKEND_HYBRID};
    CHECK(config.type == ATTN_MODEL_LAYER && config.causal == ATTN_CAUSAL_NEVER, "type, causal");
    CHECK(config.hidden_size == 256 && config.heads == 4 && config.kv_heads == 2, "sizes");
    CHECK(config.head_dim == 64, "head_dim %lld follows", (long long)config.head_dim);
    CHECK(config.backend_count == ATTN_BACKENDS, "%d backends", config.backend_count);
    const attn_backend_config *b = config.backends;
    for (int i = 0; i < config.backend_count; i++) {
        CHECK(b[i].backend == order[i], "%d is %s", i, attn_backend_names[b[i].backend]);
        CHECK(attn_model_config_backend(&config, order[i]) == &b[i], "%d is not found", i);
        bool trained = order[i] == ATTN_BACKEND_EXACT || order[i] == ATTN_BACKEND_LINFORMER;
        CHECK(b[i].trained == trained, "%s: trained", attn_backend_names[b[i].backend]);
    }
    CHECK(b[0].mix.window == 128 && b[6].mix.window == 64 && b[1].mix.window == 256, "windows");
    CHECK(b[2].mix.pattern == ATTN_FIXED && b[2].mix.stride == 32 && b[2].mix.summary == 4,
          "sparse");
    CHECK(b[3].mix.k == 64 && b[3].mix.projection_length == 1024, "linformer");
    CHECK(b[4].mix.features == 128 && b[4].mix.seed == 7 && !b[4].mix.orthogonal &&
              b[4].mix.norm == ATTN_NORM_SQRT,
          "performer");
    for (int i = 5; i < 7; i++)
        CHECK(b[i].mamba.d_state == 16 && b[i].mamba.d_conv == 4 && b[i].mamba.expand == 2 &&
                  b[i].mamba.dt_rank == 1 && b[i].mamba.variant == ATTN_MAMBA_ARTICLE &&
                  b[i].mamba.discretization == ATTN_ARTICLE,
              "%s has Mamba's sizes", attn_backend_names[b[i].backend]);
    attn_model_config_free(&config);
}

/* Whatever a config leaves out is 0, or the default that config.h states. */
static void defaults(void)
{
    attn_model_config config = need_silent("{\"model_type\": \"layer\", \"head_dim\": null}");
    CHECK(config.hidden_size == 0 && config.heads == 0 && config.kv_heads == 0 &&
              config.head_dim == 0 && config.backend_count == 0,
          "sizes");
    CHECK(!attn_model_config_backend(&config, ATTN_BACKEND_EXACT), "none listed");
    config = need_silent("{\"model_type\": \"layer\", \"hidden_size\": 96, \"head_dim\": 32,"
                         " \"num_attention_heads\": 5, \"causal\": \"any\", \"backends\":"
                         " {\"mamba\": {\"dt_rank\": \"auto\"}, \"linformer\": null}}");
    CHECK(config.kv_heads == 5 && config.head_dim == 32, "heads that do not fill hidden_size");
    CHECK(config.causal == ATTN_CAUSAL_EITHER, "any");
    attn_mix_params mix;
    attn_mix_params_init(&mix, 1);
    const attn_backend_config *mamba = &config.backends[0], *linformer = &config.backends[1];
    CHECK(mamba->mamba.dt_rank == 0 && mamba->mamba.d_state == 0 && mamba->mamba.expand == 0 &&
              mamba->mamba.d_inner == 0 && mamba->mamba.variant == ATTN_MAMBA_OFFICIAL &&
              mamba->mamba.discretization == ATTN_EULER && mamba->mamba.bias == ATTN_UNSAID,
          "mamba");
    CHECK(linformer->mix.k == 0 && linformer->mix.projection_length == 0 &&
              linformer->mix.projection == ATTN_MEAN && linformer->mix.window == mix.window &&
              linformer->mix.features == mix.features && linformer->mix.orthogonal,
          "linformer");
    attn_model_config_free(&config);
}

/* Without "mamba" beside it, hybrid may describe the block itself. */
static void hybrid_alone(void)
{
    attn_model_config config = need_silent("{\"model_type\": \"layer\", \"backends\": {\"hybrid\":"
                                           " {\"window\": 8, \"d_state\": 4}}}");
    CHECK(config.backends[0].mamba.d_state == 4 && config.backends[0].mix.window == 8, "hybrid");
    config = need_parse("{\"model_type\": \"layer\", \"backends\": {\"hybrid\": {\"d_state\": 4},"
                        " \"mamba\": {\"d_state\": 8}}}");
    CHECK(config.backends[0].mamba.d_state == 8, "one set of weights, one description");
    CHECK(config.warnings.count == 1, "%d warnings", config.warnings.count);
    attn_model_config_free(&config);
}

/* "stack" */

static void a_stack(void)
{
    attn_model_config config = need_silent(
        "{\"model_type\": \"stack\", \"hidden_size\": 64, \"num_attention_heads\": 4, \"causal\":"
        " true, \"norm\": \"layernorm\", \"norm_eps\": 1e-6, \"final_norm\": \"none\", \"layers\":"
        " [{\"mixer\": \"mamba\", \"norm\": \"rmsnorm\", \"d_state\": 8},"
        "  {\"mixer\": \"window\", \"window\": 512, \"residual\": false, \"norm_eps\": 0.5,"
        "   \"feed_forward\": {\"intermediate_size\": 256, \"activation\": \"silu\", \"gated\":"
        "   true}},"
        "  {\"mixer\": \"performer\", \"norm\": \"none\", \"feature_norm\": \"sqrt\", \"trained\":"
        "   false, \"feed_forward\": {}}]}");
    CHECK(config.type == ATTN_MODEL_STACK && config.causal == ATTN_CAUSAL_ALWAYS, "type");
    CHECK(config.layer_count == 3 && config.listed == 3, "%d layers", config.listed);
    const attn_layer_config *l[3];
    for (int i = 0; i < 3; i++)
        l[i] = attn_model_config_layer(&config, i);
    CHECK(l[0]->mixer.backend == ATTN_BACKEND_MAMBA && l[0]->mixer.mamba.d_state == 8 &&
              l[0]->mixer.trained && l[0]->residual && !l[0]->feed_forward.present,
          "layer 0");
    CHECK(l[0]->norm.kind == ATTN_NORMALIZATION_RMS && l[0]->norm.epsilon == 1e-6, "its norm");
    CHECK(l[1]->mixer.backend == ATTN_BACKEND_WINDOW && l[1]->mixer.mix.window == 512 &&
              !l[1]->residual,
          "layer 1");
    CHECK(l[1]->norm.kind == ATTN_NORMALIZATION_LAYER && l[1]->norm.epsilon == 0.5, "its norm");
    CHECK(l[1]->feed_forward.present && l[1]->feed_forward.intermediate_size == 256 &&
              l[1]->feed_forward.activation == ATTN_SILU && l[1]->feed_forward.gated,
          "its feed-forward");
    CHECK(l[2]->norm.kind == ATTN_NORMALIZATION_NONE && l[2]->mixer.mix.norm == ATTN_NORM_SQRT &&
              !l[2]->mixer.trained,
          "layer 2 has two kinds of norm");
    CHECK(l[2]->feed_forward.present && l[2]->feed_forward.intermediate_size == 0 &&
              l[2]->feed_forward.activation == ATTN_GELU && !l[2]->feed_forward.gated,
          "a feed-forward of defaults");
    CHECK(config.final_norm.kind == ATTN_NORMALIZATION_NONE && config.final_norm.epsilon == 1e-6,
          "final norm");
    attn_model_config_free(&config);

    config = need_silent("{\"model_type\": \"stack\", \"layers\": [{\"mixer\": \"exact\"}]}");
    const attn_layer_config *only = attn_model_config_layer(&config, 0);
    CHECK(only->residual && only->norm.kind == ATTN_NORMALIZATION_UNSAID &&
              only->norm.epsilon == 1e-5 && config.final_norm.kind == ATTN_NORMALIZATION_UNSAID,
          "defaults");
    attn_model_config_free(&config);
}

/* "mamba": the file that transformers writes for a published checkpoint. */
static void hugging_face(void)
{
    attn_model_config config = need_silent(
        "{\"architectures\": [\"MambaForCausalLM\"], \"bos_token_id\": 0, \"conv_kernel\": 4,"
        " \"d_inner\": 1536, \"d_model\": 768, \"eos_token_id\": 0, \"expand\": 2,"
        " \"fused_add_norm\": true, \"hidden_act\": \"silu\", \"hidden_size\": 768,"
        " \"initializer_range\": 0.1, \"intermediate_size\": 1536, \"layer_norm_epsilon\": 1e-05,"
        " \"model_type\": \"mamba\", \"n_layer\": 24, \"num_hidden_layers\": 24, \"pad_token_id\":"
        " 0, \"pad_vocab_size_multiple\": 8, \"rescale_prenorm_residual\": false,"
        " \"residual_in_fp32\": true, \"rms_norm\": true, \"ssm_cfg\": {}, \"state_size\": 16,"
        " \"time_step_floor\": 0.0001, \"time_step_init_scheme\": \"random\", \"time_step_max\":"
        " 0.1, \"time_step_min\": 0.001, \"time_step_rank\": 48, \"time_step_scale\": 1.0,"
        " \"torch_dtype\": \"float32\", \"transformers_version\": \"4.39.0\", \"use_bias\": false,"
        " \"use_cache\": true, \"use_conv_bias\": true, \"vocab_size\": 50280}");
    CHECK(config.type == ATTN_MODEL_MAMBA && config.causal == ATTN_CAUSAL_ALWAYS, "type");
    CHECK(config.hidden_size == 768 && config.layer_count == 24 && config.listed == 1, "sizes");
    const attn_layer_config *layer = attn_model_config_layer(&config, 23);
    CHECK(layer == attn_model_config_layer(&config, 0), "all the same");
    const attn_mamba_config *mamba = &layer->mixer.mamba;
    CHECK(layer->mixer.backend == ATTN_BACKEND_MAMBA && layer->mixer.trained && layer->residual,
          "mixer");
    CHECK(mamba->d_state == 16 && mamba->d_conv == 4 && mamba->expand == 2 &&
              mamba->d_inner == 1536 && mamba->dt_rank == 48,
          "block");
    CHECK(mamba->bias == ATTN_NO && mamba->conv_bias == ATTN_YES, "biases");
    CHECK(mamba->variant == ATTN_MAMBA_OFFICIAL && mamba->discretization == ATTN_EULER, "form");
    CHECK(layer->norm.kind == ATTN_NORMALIZATION_RMS && layer->norm.epsilon == 1e-5, "norm");
    CHECK(config.final_norm.kind == ATTN_NORMALIZATION_RMS, "final norm");
    attn_model_config_free(&config);

    config = need_silent("{\"model_type\": \"mamba\", \"time_step_rank\": \"auto\"}");
    CHECK(config.layer_count == 0 && config.hidden_size == 0, "to be counted");
    CHECK(attn_model_config_layer(&config, 5)->mixer.mamba.dt_rank == 0, "auto");
    attn_model_config_free(&config);
}

/* Warnings */

static void warns(void)
{
    attn_model_config config = need_parse(
        "{\"model_type\": \"stack\", \"rope_theta\": 1e4, \"layers\": [{\"mixer\":"
        " \"exact\"}, {\"mixer\": \"window\", \"stride\": 3, \"feed_forward\": {\"gate\":"
        " 1, \"a\\nb\": 0}}]}");
    static const char *const expected[][2] = {
        {"rope_theta", ""},
        {"layers[1].stride", ""},
        {"layers[1].feed_forward.gate", "; the nearest is gated"},
        {"layers[1].feed_forward.a?b", ""}};
    CHECK(config.warnings.count == 4 && config.warnings.left_out == 0, "%d warnings",
          config.warnings.count);
    for (int i = 0; i < 4; i++) {
        char text[ATTN_WARNING_BYTES];
        snprintf(text, sizeof text, "config.json: %s is a key that is not known, and ignored%s",
                 expected[i][0], expected[i][1]);
        CHECK(strcmp(config.warnings.text[i], text) == 0, "%s", config.warnings.text[i]);
    }
    attn_model_config_free(&config);
}

static void bounded_warnings(void)
{
    char *text = stored_memory(32 + 100 * 16), *at = stpcpy(text, "{\"model_type\": \"layer\"");
    for (int i = 0; i < 100; i++)
        at += sprintf(at, ", \"k%d\": 0", i);
    strcpy(at, "}");
    attn_model_config config = need_parse(text);
    CHECK(config.warnings.count == ATTN_WARNINGS_MAX, "%d", config.warnings.count);
    CHECK(config.warnings.left_out == 100 - ATTN_WARNINGS_MAX, "%d", config.warnings.left_out);
    attn_model_config_free(&config);
    free(text);
}

/* Refusals */

static void refuses(const char *text, attn_status status, const char *param, const char *message)
{
    char expected[320];
    attn_model_config config;
    attn_error error = {0};
    snprintf(expected, sizeof expected, "config.json: %s", message);
    attn_status found = attn_model_config_parse(text, strlen(text), "config.json", &config, &error);
    CHECK(found == status && error.status == status, "%s: %s", text, attn_status_name(found));
    CHECK(strcmp(error.message, expected) == 0, "%s: %s", text, error.message);
    CHECK(strcmp(error.param, param) == 0, "%s: param %s", text, error.param);
    if (found == ATTN_OK)
        attn_model_config_free(&config);
}

#define LAYER(rest)         "{\"model_type\": \"layer\", " rest "}"
#define BACKEND(name, rest) LAYER("\"backends\": {\"" name "\": {" rest "}}")
#define STACK(rest)         "{\"model_type\": \"stack\", \"layers\": [" rest "]}"
#define MAMBA(rest)         "{\"model_type\": \"mamba\", " rest "}"
#define SIZE                ", expected a whole number from 1 to 2147483647"

static void wrong_values(void)
{
    static const struct {
        const char *text, *param, *message;
    } list[] = {
        {"{}", "model_type", "model_type is missing, expected \"layer\", \"stack\" or \"mamba\""},
        {"{\"model_type\": \"mamba2\"}", "model_type",
         "model_type is \"mamba2\", expected \"layer\", \"stack\" or \"mamba\""},
        {LAYER("\"hidden_size\": 0"), "hidden_size", "hidden_size is 0" SIZE},
        {LAYER("\"hidden_size\": \"8\""), "hidden_size", "hidden_size is \"8\"" SIZE},
        {LAYER("\"hidden_size\": 8.0"), "hidden_size", "hidden_size is 8.00000" SIZE},
        {LAYER("\"hidden_size\": 2147483648"), "hidden_size", "hidden_size is 2147483648" SIZE},
        {LAYER("\"hidden_size\": [8]"), "hidden_size", "hidden_size is an array" SIZE},
        {LAYER("\"num_attention_heads\": 4, \"num_key_value_heads\": 3"), "num_key_value_heads",
         "num_key_value_heads is 3, expected a divisor of num_attention_heads, which is 4"},
        {LAYER("\"num_attention_heads\": 4, \"hidden_size\": 10"), "hidden_size",
         "hidden_size is 10, expected a multiple of num_attention_heads, which is 4, or a "
         "head_dim"},
        {LAYER("\"causal\": 1"), "causal", "causal is 1, expected true, false or \"any\""},
        {LAYER("\"causal\": \"all\""), "causal",
         "causal is \"all\", expected true, false or \"any\""},
        {LAYER("\"backends\": [\"exact\"]"), "backends",
         "backends is an array, expected an object of backends"},
        {LAYER("\"backends\": {\"exact\": true}"), "backends.exact",
         "backends.exact is true, expected an object"},
        {BACKEND("exact", "\"trained\": 1"), "backends.exact.trained",
         "backends.exact.trained is 1, expected true or false"},
        {BACKEND("sparse", "\"pattern\": \"dense\""), "backends.sparse.pattern",
         "backends.sparse.pattern is \"dense\", expected \"strided\", \"fixed\" or \"local\""},
        {BACKEND("linformer", "\"k\": 9, \"seq_len\": 8"), "backends.linformer.k",
         "backends.linformer.k is 9, expected at most seq_len, which is 8"},
        {BACKEND("performer", "\"seed\": -1"), "backends.performer.seed",
         "backends.performer.seed is -1, expected a whole number from 0 to 9007199254740991"},
        {BACKEND("mamba", "\"dt_rank\": \"half\""), "backends.mamba.dt_rank",
         "backends.mamba.dt_rank is \"half\", expected \"auto\" or a whole number"},
        {BACKEND("mamba", "\"discretization\": \"article\""), "backends.mamba.discretization",
         "backends.mamba.discretization is \"article\", expected \"euler\", or \"variant\": "
         "\"article\" beside it"},
        {"{\"model_type\": \"stack\"}", "layers",
         "layers is missing, expected an array of 1 to 4096 layers"},
        {STACK(""), "layers", "layers is an array, expected an array of 1 to 4096 layers"},
        {STACK("{\"mixer\": \"exact\"}, 3"), "layers[1]",
         "layers[1] is 3, expected an object with a \"mixer\""},
        {STACK("{}"), "layers[0].mixer",
         "layers[0].mixer is missing, expected \"exact\", \"window\", \"sparse\", "
         "\"linformer\", \"performer\", \"mamba\" or \"hybrid\""},
        {STACK("{\"mixer\": \"exact\", \"norm\": \"\"}"), "layers[0].norm",
         "layers[0].norm is \"\", expected \"none\", \"layernorm\" or \"rmsnorm\""},
        {STACK("{\"mixer\": \"exact\", \"norm_eps\": 2}"), "layers[0].norm_eps",
         "layers[0].norm_eps is 2, expected a number from 0 to 1"},
        {STACK("{\"mixer\": \"exact\", \"feed_forward\": {\"activation\": \"tanh\"}}"),
         "layers[0].feed_forward.activation",
         "layers[0].feed_forward.activation is \"tanh\", expected \"gelu\", \"relu\" or "
         "\"silu\""},
        {MAMBA("\"num_hidden_layers\": 4097"), "num_hidden_layers",
         "num_hidden_layers is 4097, expected a whole number from 1 to 4096"},
        {MAMBA("\"use_bias\": 0"), "use_bias", "use_bias is 0, expected true or false"},
        {MAMBA("\"layer_norm_epsilon\": true"), "layer_norm_epsilon",
         "layer_norm_epsilon is true, expected a number from 0 to 1"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        refuses(list[i].text, ATTN_INVALID, list[i].param, list[i].message);
}

static void not_offered(void)
{
    refuses(LAYER("\"backends\": {\"reformer\": {}}"), ATTN_UNSUPPORTED, "backends.reformer",
            "backends.reformer is an object, expected the key to be exact, window, sparse, "
            "linformer, performer, mamba or hybrid");
    refuses(STACK("{\"mixer\": \"hybrid\"}"), ATTN_UNSUPPORTED, "layers[0].mixer",
            "layers[0].mixer is \"hybrid\", expected its two layers, \"mamba\" and \"window\", one "
            "after the other");
    refuses(MAMBA("\"hidden_act\": \"gelu\""), ATTN_UNSUPPORTED, "hidden_act",
            "hidden_act is \"gelu\", expected \"silu\"");
}

static void not_json(void)
{
    refuses("", ATTN_MALFORMED, "config.json", "line 1: '[' or '{' expected near end of file");
    refuses("[]", ATTN_MALFORMED, "config.json", "expected a JSON object");
    refuses("{\"model_type\": \"layer\", \"model_type\": \"stack\"}", ATTN_MALFORMED, "config.json",
            "line 1: duplicate object key near '\"model_type\"'");
    refuses("{\"hidden_size\":\n 99999999999999999999}", ATTN_MALFORMED, "config.json",
            "line 2: too big integer near '99999999999999999999'");
    refuses("{\"model_type\": \"layer\"} x", ATTN_MALFORMED, "config.json",
            "line 1: end of file expected near 'x'");
    char *deep = stored_memory(100001);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    refuses(deep, ATTN_MALFORMED, "config.json", "line 1: maximum parsing depth reached near '['");
    free(deep);
}

/* Files */

static void reads_files(void)
{
    test_folder folder = folder_open();
    char path[128];
    snprintf(path, sizeof path, "%s", folder_path(&folder, "config.json"));
    attn_model_config config;
    attn_error error = {0};
    CHECK(attn_model_config_read(path, &config, &error) == ATTN_INVALID, "there is none");
    CHECK(folder_says(&folder, &error, "config.json: No such file or directory"), "absent");
    folder_text(&folder, "config.json", LAYER("\"hidden_size\": 8"));
    error = (attn_error){0};
    CHECK(attn_model_config_read(path, &config, &error) == ATTN_OK, "%s", error.message);
    CHECK(config.hidden_size == 8, "hidden_size");
    attn_model_config_free(&config);
    size_t bytes = (1 << 20) + 1;
    char *blank = stored_memory(bytes);
    memset(blank, ' ', bytes);
    folder_write(&folder, "config.json", blank, bytes);
    free(blank);
    CHECK(attn_model_config_read(path, &config, &error) == ATTN_MALFORMED, "too large");
    CHECK(folder_says(&folder, &error,
                      "config.json: has 1048577 bytes, more than the 1048576 that are read"),
          "too large");
    folder_close(&folder);
}

int main(void)
{
    static const test_case cases[] = {
        {"a layer", a_layer},
        {"defaults", defaults},
        {"hybrid with and without mamba", hybrid_alone},
        {"a stack", a_stack},
        {"Hugging Face's Mamba", hugging_face},
        {"unknown keys warn with their path", warns},
        {"warnings are bounded", bounded_warnings},
        {"wrong values", wrong_values},
        {"what is not offered", not_offered},
        {"what is not JSON", not_json},
        {"files", reads_files},
        {NULL, NULL},
    };
    return test_main("model_config", cases);
}
