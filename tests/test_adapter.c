#include "model/adapter.h"
#include "model/adapter_config.h"
#include "tests/support/folder.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG               "adapter_config.json"
#define TENSORS              "adapter_model.safetensors"
#define NAME(module, matrix) "base_model.model." module ".lora_" matrix ".weight"

static const float numbers[64] = {1, 2, 3, 4, 5, 6, 7, 8};
static const uint16_t halves[64] = {0x3c00, 0x4000}; /* F16: 1, 2 */

/* q: rank 2, (5, 3); v, whose name sorts otherwise than its tensors': rank 2, (4, 3) */
static const attn_stored pairs[] = {
    {.name = NAME("attn.q", "A"), .rank = 2, .dim = {2, 3}, .data = (const void *)numbers},
    {.name = NAME("attn.q", "B"), .rank = 2, .dim = {5, 2}, .data = (const void *)numbers},
    {.name = NAME("attn.q-v", "A"),
     .dtype = ATTN_FP16,
     .rank = 2,
     .dim = {2, 3},
     .data = (const void *)halves},
    {.name = NAME("attn.q-v", "B"),
     .dtype = ATTN_FP16,
     .rank = 2,
     .dim = {4, 2},
     .data = (const void *)halves},
};

static const attn_adaptable modules[] = {{"attn.q", 5, 3}, {"attn.q-v", 4, 3}, {"attn.out", 3, 5}};

/* A folder with the configuration and the first `count` tensors. */
static test_folder make_folder(const char *config, const attn_stored *tensors, int count)
{
    test_folder folder = folder_open();
    folder_text(&folder, CONFIG, config);
    folder_tensors(&folder, TENSORS, tensors, count);
    return folder;
}

static attn_adapter *need_open(const test_folder *folder)
{
    attn_error error = {0};
    attn_adapter *adapter = attn_adapter_open(folder->path, &error);
    CHECK(adapter != NULL, "refused: %s", error.message);
    if (!adapter)
        abort();
    return adapter;
}

/* An adapter of peft, with every key that it writes */

static void an_adapter(void)
{
    test_folder folder = make_folder(
        "{\"alora_invocation_tokens\": null, \"alpha_pattern\": {}, \"arrow_config\": null,"
        " \"auto_mapping\": null, \"base_model_name_or_path\": \"x\", \"bias\": \"none\","
        " \"corda_config\": null, \"ensure_weight_tying\": false, \"eva_config\": null,"
        " \"exclude_modules\": null, \"fan_in_fan_out\": false, \"inference_mode\": true,"
        " \"init_lora_weights\": true, \"layer_replication\": null, \"layers_pattern\": null,"
        " \"layers_to_transform\": null, \"loftq_config\": {}, \"lora_alpha\": 16, \"lora_bias\":"
        " false, \"lora_dropout\": 0.05, \"megatron_config\": null, \"megatron_core\":"
        " \"megatron.core\", \"modules_to_save\": null, \"peft_type\": \"LORA\", \"peft_version\":"
        " \"0.18.0\", \"qalora_group_size\": 16, \"r\": 2, \"rank_pattern\": {}, \"revision\":"
        " null, \"target_modules\": [\"q\", \"attn.q-v\"], \"target_parameters\": null,"
        " \"task_type\": \"CAUSAL_LM\", \"trainable_token_indices\": null, \"use_dora\": false,"
        " \"use_qalora\": false, \"use_rslora\": false}",
        pairs, 4);
    attn_adapter *adapter = need_open(&folder);
    attn_error error = {0};
    CHECK(attn_adapter_warnings(adapter)->count == 0, "%s",
          attn_adapter_warnings(adapter)->text[0]);
    CHECK(attn_adapter_check(adapter, modules, 3, &error) == ATTN_OK, "%s", error.message);
    CHECK(attn_adapter_count(adapter) == 2, "%d modules", attn_adapter_count(adapter));
    for (int i = 0; i < 2; i++) {
        const attn_lora *lora = attn_adapter_at(adapter, i);
        CHECK(strcmp(lora->module, modules[i].module) == 0, "%d is %s", i, lora->module);
        CHECK(attn_adapter_find(adapter, "attn.", modules[i].module + 5) == lora, "%d", i);
        CHECK(lora->scale == 8, "scale %g", (double)lora->scale);
        CHECK(lora->a.rows == 2 && lora->a.columns == 3 && lora->b.columns == 2 &&
                  lora->b.rows == modules[i].rows,
              "shapes of %d", i);
    }
    float scratch[2];
    CHECK(attn_matrix_rows(&attn_adapter_at(adapter, 0)->b, &attn_elementwise_scalar, 1, 1,
                           NULL)[1] == 4,
          "B of q");
    CHECK(attn_matrix_rows(&attn_adapter_at(adapter, 1)->b, &attn_elementwise_scalar, 0, 1,
                           scratch)[1] == 2,
          "B of q-v");
    CHECK(!attn_adapter_find(adapter, "", "q"), "the whole path or nothing");
    CHECK(attn_adapter_owned_bytes(adapter) == 0 && attn_adapter_mapped_bytes(adapter) > 0,
          "bytes");
    attn_adapter_close(adapter);
    attn_adapter_close(NULL);
    folder_close(&folder);
}

static void scales(void)
{
    static const struct {
        const char *text, *module;
        int64_t rank;
        double scale;
    } list[] = {
        {"\"r\": 8, \"lora_alpha\": 16", "q", 8, 2},
        {"\"r\": 8, \"lora_alpha\": 0.5", "q", 8, 0.0625},
        {"\"r\": 16, \"lora_alpha\": 8, \"use_rslora\": true", "q", 16, 2},
        {"\"r\": 8, \"lora_alpha\": 16, \"rank_pattern\": {\"k\": 2, \"q\": 4}", "l.0.q", 4, 4},
        {"\"r\": 8, \"lora_alpha\": 16, \"rank_pattern\": {\"k\": 2, \"q\": 4}", "l.0.xq", 8, 2},
        {"\"r\": 8, \"lora_alpha\": 16, \"rank_pattern\": {\"q\": 4, \"0.q\": 2}", "0.q", 4, 4},
        {"\"r\": 8, \"lora_alpha\": 16, \"alpha_pattern\": {\"l.1.q\": 32}", "l.1.q", 8, 4},
        {"\"r\": 8, \"lora_alpha\": 16, \"alpha_pattern\": {\"q\": 32}, \"rank_pattern\": {\"q\":"
         " 4}, \"use_rslora\": true",
         "q", 4, 16},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char text[256];
        attn_adapter_config config;
        attn_warnings warnings = {0};
        attn_error error = {0};
        int length = snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", %s}", list[i].text);
        attn_status status =
            attn_adapter_config_parse(text, (size_t)length, CONFIG, &config, &warnings, &error);
        CHECK(status == ATTN_OK, "%s: %s", text, error.message);
        CHECK(attn_adapter_config_rank(&config, list[i].module) == list[i].rank, "%s", text);
        CHECK(attn_adapter_config_scale(&config, list[i].module) == (float)list[i].scale,
              "%s: scale %g", text, (double)attn_adapter_config_scale(&config, list[i].module));
        attn_adapter_config_free(&config);
    }
}

/* Configurations that are refused */

static void wrong_configs(void)
{
#define LORA(rest) "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, " rest "}"
    static const struct {
        const char *text;
        attn_status status;
        const char *message;
    } list[] = {
        {"{\"r\": 8}", ATTN_UNSUPPORTED, "peft_type is missing, expected \"LORA\""},
        {"{\"peft_type\": \"IA3\"}", ATTN_UNSUPPORTED, "peft_type is \"IA3\", expected \"LORA\""},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 1}", ATTN_INVALID,
         "r is missing, expected the rank"},
        {"{\"peft_type\": \"LORA\", \"r\": 1}", ATTN_INVALID,
         "lora_alpha is missing, expected a number"},
        {"{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 1}", ATTN_INVALID,
         "r is 0, expected a whole number from 1 to 65536"},
        {LORA("\"bias\": \"lora_only\""), ATTN_UNSUPPORTED,
         "bias is \"lora_only\", expected \"none\""},
        {LORA("\"use_dora\": true"), ATTN_UNSUPPORTED,
         "use_dora is true, expected false: DoRA is not supported"},
        {LORA("\"fan_in_fan_out\": true"), ATTN_UNSUPPORTED,
         "fan_in_fan_out is true, expected false: weights are (out, in), as torch.nn.Linear has "
         "them"},
        {LORA("\"modules_to_save\": [\"head\"]"), ATTN_UNSUPPORTED,
         "modules_to_save is an array, expected none: an adapter brings no modules of its own"},
        {LORA("\"init_lora_weights\": \"pissa_niter_4\""), ATTN_UNSUPPORTED,
         "init_lora_weights is \"pissa_niter_4\", expected one that leaves the base weights alone; "
         "save the adapter with path_initial_model_for_weight_conversion"},
        {LORA("\"target_modules\": 3"), ATTN_INVALID,
         "target_modules is 3, expected a list of module names, or a string"},
        {LORA("\"target_modules\": [\"q\", 1]"), ATTN_INVALID,
         "target_modules[1] is 1, expected a module name"},
        {LORA("\"rank_pattern\": [2]"), ATTN_INVALID,
         "rank_pattern is an array, expected an object of module names and numbers"},
        {LORA("\"rank_pattern\": {\"q.*\": 2}"), ATTN_UNSUPPORTED,
         "rank_pattern.q.* is 2, expected the key to be a module's name, not a regular "
         "expression"},
        {LORA("\"rank_pattern\": {\"q\": 0}"), ATTN_INVALID,
         "rank_pattern.q is 0, expected a number from 1 to 65536"},
        {LORA("\"alpha_pattern\": {\"q\": \"4\"}"), ATTN_INVALID,
         "alpha_pattern.q is \"4\", expected a number from -1e+06 to 1e+06"},
        {"nothing", ATTN_MALFORMED, "line 1: '[' or '{' expected near 'nothing'"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char expected[320];
        attn_error error = {0};
        snprintf(expected, sizeof expected, CONFIG ": %s", list[i].message);
        test_folder folder = make_folder(list[i].text, pairs, 4);
        CHECK(!attn_adapter_open(folder.path, &error), "%s", list[i].text);
        CHECK(error.status == list[i].status, "%s: %s", list[i].text,
              attn_status_name(error.status));
        CHECK(folder_says(&folder, &error, expected), "another sentence");
        folder_close(&folder);
    }
#undef LORA
}

/* Tensors that are refused */

#define R(rank) "{\"peft_type\": \"LORA\", \"r\": " #rank ", \"lora_alpha\": 4}"

static void refuses_tensors(const char *config, const attn_stored *tensors, int count,
                            attn_status status, const char *expected)
{
    attn_error error = {0};
    test_folder folder = make_folder(config, tensors, count);
    CHECK(!attn_adapter_open(folder.path, &error), "accepted, expected %s", expected);
    CHECK(error.status == status, "%s: %s", expected, attn_status_name(error.status));
    CHECK(strstr(error.message, expected) != NULL, "%s, expected %s", error.message, expected);
    folder_close(&folder);
}

static void wrong_tensors(void)
{
    attn_stored list[4];
    memcpy(list, pairs, sizeof list);
    refuses_tensors(R(3), pairs, 4, ATTN_INVALID,
                    "lora_A.weight\" has the shape [2, 3], expected [3, any]");
    refuses_tensors(R(2), pairs, 0, ATTN_INVALID, "holds no LoRA matrices");
    refuses_tensors(R(2), pairs, 3, ATTN_INVALID,
                    "\"" NAME("attn.q-v", "B") "\" is missing, expected one of shape [any, 2]");
    refuses_tensors(R(2), pairs + 1, 3, ATTN_INVALID,
                    "\"" NAME("attn.q", "A") "\" is missing, expected one of shape [2, any]");
    list[1].dim[1] = 4;
    refuses_tensors(R(2), list, 4, ATTN_INVALID,
                    "lora_B.weight\" has the shape [5, 4], expected [any, 2]");
    list[1] = pairs[1];
    list[0].rank = 3;
    list[0].dim[2] = 1;
    refuses_tensors(R(2), list, 4, ATTN_INVALID, "has the shape [2, 3, 1], expected [2, any]");
    static const char *const strange[] = {"attn.q.lora_A.weight", "base_model.model.attn.q.weight",
                                          "base_model.model.attn.q.lora_A.default.weight",
                                          "base_model.model.attn.q.lora_magnitude_vector",
                                          "base_model.model..lora_A.weight"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        list[0] = pairs[0];
        list[0].name = strange[i];
        char expected[160];
        snprintf(expected, sizeof expected,
                 "tensor \"%s\" is no LoRA matrix, expected base_model.model.<module>"
                 ".lora_A.weight or lora_B",
                 strange[i]);
        refuses_tensors(R(2), list, 1, ATTN_UNSUPPORTED, expected);
    }
}

static void without_tensors(void)
{
    test_folder folder = folder_open();
    attn_error error = {0};
    folder_text(&folder, CONFIG, R(2));
    folder_text(&folder, "adapter_model.bin", "x");
    CHECK(!attn_adapter_open(folder.path, &error), "a pickle");
    CHECK(strstr(error.message, "there is adapter_model.bin but no " TENSORS) != NULL, "%s",
          error.message);
    folder_close(&folder);
    folder = folder_open();
    error = (attn_error){0};
    CHECK(!attn_adapter_open(folder.path, &error), "nothing at all");
    CHECK(folder_says(&folder, &error, CONFIG ": No such file or directory"), "absent");
    folder_close(&folder);
}

/* Against a model */

static void refuses_model(const char *config, const attn_adaptable *list, int count,
                          const char *expected)
{
    attn_error error = {0};
    test_folder folder = make_folder(config, pairs, 4);
    attn_adapter *adapter = need_open(&folder);
    CHECK(attn_adapter_check(adapter, list, count, &error) == ATTN_INVALID, "%s", expected);
    CHECK(strncmp(error.message, folder.path, strlen(folder.path)) == 0 &&
              strcmp(error.message + strlen(folder.path), expected) == 0,
          "%s, expected %s", error.message, expected);
    attn_adapter_close(adapter);
    folder_close(&folder);
}

static void wrong_modules(void)
{
    static const attn_adaptable named[] = {{"attn.q", 5, 3}, {"attn.k", 5, 3}};
    static const attn_adaptable shaped[] = {{"attn.q", 5, 3}, {"attn.q-v", 4, 4}};
    refuses_model(R(2), named, 2,
                  ": \"attn.q-v\" is adapted, but the model can adapt only: attn.q, attn.k");
    refuses_model(R(2), shaped, 2,
                  ": B A of \"attn.q-v\" is [4, 3], expected the shape of its weight, [4, 4]");
    refuses_model("{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"target_modules\":"
                  " [\"q\", \"v\"]}",
                  modules, 3,
                  ": \"v\" is among target_modules, but no tensor adapts it; the model can adapt: "
                  "attn.q, attn.q-v, attn.out");
}

/* The list of what the model has is cut, not the sentence. */
static void many_modules(void)
{
    enum {
        COUNT = 100
    };
    char names[COUNT][32];
    attn_adaptable list[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "layers.%d.in_proj", i);
        list[i] = (attn_adaptable){.module = names[i], .rows = 5, .columns = 3};
    }
    refuses_model(R(2), list, COUNT,
                  ": \"attn.q\" is adapted, but the model can adapt only: layers.0.in_proj, "
                  "layers.1.in_proj, layers.2.in_proj, layers.3.in_proj, layers.4.in_proj, "
                  "layers.5.in_proj, ...");
}

int main(void)
{
    static const test_case cases[] = {
        {"an adapter as peft writes it", an_adapter},
        {"ranks and scales", scales},
        {"wrong configurations", wrong_configs},
        {"wrong tensors", wrong_tensors},
        {"no tensors", without_tensors},
        {"wrong modules", wrong_modules},
        {"many modules", many_modules},
        {NULL, NULL},
    };
    return test_main("adapter", cases);
}
