/* They are written by init-model and loaded by a rescan, as a daemon's are. */
#include "tests/inline/models.h"

#include "server/init_model/init_model.h"
#include "tests/support/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct {
    test_folder folder;
    srv_log log;
    srv_registry *registry;
} models;

static void require(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "no models to test with: %s\n", what);
        abort();
    }
}

static void close_models(void)
{
    srv_registry_close(models.registry);
    folder_close(&models.folder);
}

/* init-model's arguments take no const. */
static void write_model(const char *name, char *layers, char *backends)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", models.folder.path, name);
    char *const arguments[] = {path,   "--dim",      "4",      "--heads",    "2", "--seq-len",
                               "16",   "--k",        "3",      "--window",   "3", "--layers",
                               layers, "--backends", backends, "--features", "5", NULL};
    require(srv_init_model(arguments) == EXIT_SUCCESS, name);
}

static void write_adapter(void)
{
    static const float a[] = {1, -1, 0.5F, 2}, b[] = {0.5F, 1, -1, 0};
    const attn_stored tensors[] = {
        {.name = "base_model.model.attn.q_proj.lora_A.weight",
         .dtype = ATTN_FP32,
         .rank = 2,
         .dim = {1, 4},
         .data = (const void *)a},
        {.name = "base_model.model.attn.q_proj.lora_B.weight",
         .dtype = ATTN_FP32,
         .rank = 2,
         .dim = {4, 1},
         .data = (const void *)b},
    };
    require(mkdir(folder_path(&models.folder, "l/adapters"), 0700) == 0, "adapters");
    require(mkdir(folder_path(&models.folder, "l/adapters/a"), 0700) == 0, "adapters/a");
    folder_tensors(&models.folder, "l/adapters/a/adapter_model.safetensors", tensors, 2);
    folder_text(&models.folder, "l/adapters/a/adapter_config.json",
                "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": 2,"
                " \"target_modules\": [\"q_proj\"]}");
}

static void require_ready(void *context, const srv_model_status *status)
{
    (void)context;
    require(status->state == SRV_MODEL_READY, status->reason);
}

srv_registry *inline_models(void)
{
    enum {
        STDERR = 2
    };
    attn_error error = {0};
    if (models.registry)
        return models.registry;
    models.folder = folder_open();
    write_model("l", "1", "exact,window,sparse,linformer,performer,mamba,hybrid");
    write_model("s", "3", "mamba,window,performer");
    write_adapter();
    srv_log_init(&models.log, STDERR, SRV_LOG_JSON, SRV_LOG_ERROR);
    models.registry = srv_registry_open(models.folder.path, false, NULL, &models.log, &error);
    require(models.registry != NULL, error.message);
    atexit(close_models);
    srv_registry_rescan(models.registry);
    require(srv_registry_visit(models.registry, NULL, require_ready, NULL) == 2, "two of them");
    return models.registry;
}
