/* The tensors of an adapter, paired and held against its configuration and the model's modules. */
#include "model/adapter.h"

#include "attn/quote.h"
#include "model/adapter_config.h"
#include "model/file.h"
#include "model/name.h"
#include "model/weights.h"
#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEM   "adapter_model"
#define PREFIX "base_model.model."
#define TAIL_A ".lora_A.weight"
#define TAIL_B ".lora_B.weight"

enum {
    LIST_BYTES = 128, /* of the model's modules in a sentence */
    NAME_BYTES = 72,
    MODULES_MAX = 16384
};

struct attn_adapter {
    char what[ATTN_WHAT_MAX]; /* the folder, as sentences show it */
    attn_adapter_config config;
    attn_warnings warnings;
    attn_weights *weights;
    attn_lora *loras; /* by module */
    size_t count;
    char *text; /* the modules' names, each ended by a zero byte */
};

/* Tensors to pairs */

/* The length of "base_model.model.<module>" in a tensor's name, or 0 when it is no LoRA matrix. */
static size_t stem_length(const char *tensor, const char *tail)
{
    size_t length = strlen(tensor), begins = strlen(PREFIX), ends = strlen(tail);
    if (length <= begins + ends || strncmp(tensor, PREFIX, begins) != 0 ||
        strcmp(tensor + length - ends, tail) != 0)
        return 0;
    return length - ends;
}

static attn_status make_room(attn_adapter *adapter, attn_error *error)
{
    int tensors = attn_weights_count(adapter->weights);
    size_t bytes = 1; /* a stem is shorter than its tensor's name by more than its zero byte */
    for (int i = 0; i < tensors; i++)
        bytes += strlen(attn_weights_at(adapter->weights, i)->name);
    if (tensors > 2 * MODULES_MAX)
        return attn_error_set(error, ATTN_UNSUPPORTED, adapter->what,
                              "%s: has %d tensors, expected at most %d", adapter->what, tensors,
                              2 * MODULES_MAX);
    adapter->loras = calloc((size_t)tensors + 1, sizeof *adapter->loras);
    adapter->text = malloc(bytes);
    if (!adapter->loras || !adapter->text)
        return attn_error_set(error, ATTN_NO_MEMORY, adapter->what,
                              "%s: no memory to list its modules", adapter->what);
    return ATTN_OK;
}

/* Take both matrices of the module that `stem` ends in. */
static attn_status take_pair(attn_adapter *adapter, const char *stem, attn_error *error)
{
    attn_lora *lora = &adapter->loras[adapter->count++];
    lora->module = stem + strlen(PREFIX);
    lora->scale = attn_adapter_config_scale(&adapter->config, lora->module);
    int64_t rank = attn_adapter_config_rank(&adapter->config, lora->module);
    attn_status status =
        attn_weights_matrix(adapter->weights, stem, TAIL_A, rank, ATTN_ANY, &lora->a, error);
    if (status == ATTN_OK)
        status =
            attn_weights_matrix(adapter->weights, stem, TAIL_B, ATTN_ANY, rank, &lora->b, error);
    return status;
}

/* A matrix A takes its pair, a B must have an A that does, and nothing else could be run. The stem
 * goes to *text, which has room for every name. */
static attn_status read_tensor(attn_adapter *adapter, const char *tensor, char **text,
                               attn_error *error)
{
    size_t of_a = stem_length(tensor, TAIL_A), length = of_a ? of_a : stem_length(tensor, TAIL_B);
    if (length == 0) {
        attn_safetensors_refuse(adapter->what, error, ATTN_UNSUPPORTED, tensor,
                                "is no LoRA matrix, expected " PREFIX "<module>" TAIL_A
                                " or lora_B, as save_pretrained writes");
        return ATTN_UNSUPPORTED;
    }
    const char *stem = memcpy(*text, tensor, length);
    (*text)[length] = '\0';
    *text += length + 1;
    if (of_a)
        return take_pair(adapter, stem, error);
    int64_t rank = attn_adapter_config_rank(&adapter->config, stem + strlen(PREFIX));
    bool paired =
        attn_weights_need(adapter->weights, stem, TAIL_A, ATTN_DIMS(rank, ATTN_ANY), error) != NULL;
    return paired ? ATTN_OK : ATTN_INVALID;
}

static int compare_modules(const void *left, const void *right)
{
    const attn_lora *a = left, *b = right;
    return strcmp(a->module, b->module);
}

static attn_status read_tensors(attn_adapter *adapter, attn_error *error)
{
    attn_status status = make_room(adapter, error);
    char *text = adapter->text;
    int tensors = attn_weights_count(adapter->weights);
    for (int i = 0; i < tensors && status == ATTN_OK; i++)
        status = read_tensor(adapter, attn_weights_at(adapter->weights, i)->name, &text, error);
    if (status != ATTN_OK)
        return status;
    if (adapter->count == 0)
        return attn_error_set(error, ATTN_INVALID, adapter->what, "%s: holds no LoRA matrices",
                              adapter->what);
    qsort(adapter->loras, adapter->count, sizeof *adapter->loras, compare_modules);
    return ATTN_OK;
}

/* Opening */

static attn_status read_folder(attn_adapter *adapter, const char *folder, attn_error *error)
{
    attn_path path;
    attn_status status = attn_path_join(path, folder, "adapter_config.json", "", error);
    if (status == ATTN_OK)
        status = attn_adapter_config_read(path, &adapter->config, &adapter->warnings, error);
    if (status != ATTN_OK)
        return status;
    adapter->weights = attn_weights_open(folder, STEM, error);
    return adapter->weights ? read_tensors(adapter, error) : ATTN_INVALID;
}

attn_adapter *attn_adapter_open(const char *folder, attn_error *error)
{
    attn_adapter *adapter = calloc(1, sizeof *adapter);
    if (!adapter) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to open an adapter");
        return NULL;
    }
    attn_quote_end(adapter->what, sizeof adapter->what, folder);
    if (read_folder(adapter, folder, error) == ATTN_OK)
        return adapter;
    attn_adapter_close(adapter);
    return NULL;
}

void attn_adapter_close(attn_adapter *adapter)
{
    if (!adapter)
        return;
    attn_adapter_config_free(&adapter->config);
    attn_weights_close(adapter->weights);
    free(adapter->loras);
    free(adapter->text);
    free(adapter);
}

/* Against the model */

/* "q_proj, k_proj, ..." */
static void list_modules(const attn_adaptable *modules, int count, char to[LIST_BYTES])
{
    static const char more[] = "...";
    char *end = to + LIST_BYTES - sizeof more;
    *to = '\0';
    for (int i = 0; i < count; i++) {
        const char *gap = i ? ", " : "";
        if (strlen(gap) + strlen(modules[i].module) + strlen(", ") > (size_t)(end - to)) {
            strcpy(stpcpy(to, gap), more);
            return;
        }
        to = stpcpy(stpcpy(to, gap), modules[i].module);
    }
}

static attn_status refuse_module(const attn_adapter *adapter, const char *module,
                                 const char *problem, const attn_adaptable *modules, int count,
                                 attn_error *error)
{
    char quoted[NAME_BYTES], list[LIST_BYTES];
    attn_quote(quoted, sizeof quoted, module, strlen(module));
    list_modules(modules, count, list);
    return attn_error_set(error, ATTN_INVALID, "adapter", "%s: %s %s: %s", adapter->what, quoted,
                          problem, list);
}

static attn_status check_module(const attn_adapter *adapter, const attn_lora *lora,
                                const attn_adaptable *modules, int count, attn_error *error)
{
    const attn_adaptable *found = NULL;
    for (int i = 0; i < count && !found; i++)
        if (strcmp(modules[i].module, lora->module) == 0)
            found = &modules[i];
    if (!found)
        return refuse_module(adapter, lora->module, "is adapted, but the model can adapt only",
                             modules, count, error);
    if (lora->b.rows == found->rows && lora->a.columns == found->columns)
        return ATTN_OK;
    char quoted[NAME_BYTES];
    attn_quote(quoted, sizeof quoted, lora->module, strlen(lora->module));
    return attn_error_set(error, ATTN_INVALID, "adapter",
                          "%s: B A of %s is [%" PRId64 ", %" PRId64
                          "], expected the shape of its weight, [%" PRId64 ", %" PRId64 "]",
                          adapter->what, quoted, lora->b.rows, lora->a.columns, found->rows,
                          found->columns);
}

/* Whether an adapted module ends in the name. */
static bool is_target(const attn_adapter *adapter, const char *name)
{
    for (size_t i = 0; i < adapter->count; i++)
        if (attn_module_ends_in(adapter->loras[i].module, name))
            return true;
    return false;
}

attn_status attn_adapter_check(const attn_adapter *adapter, const attn_adaptable *modules,
                               int count, attn_error *error)
{
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < adapter->count && status == ATTN_OK; i++)
        status = check_module(adapter, &adapter->loras[i], modules, count, error);
    for (size_t i = 0; i < adapter->config.targets.count && status == ATTN_OK; i++) {
        const char *name = adapter->config.targets.items[i].name;
        if (!is_target(adapter, name))
            status = refuse_module(adapter, name,
                                   "is among target_modules, but no tensor adapts it; the model "
                                   "can adapt",
                                   modules, count, error);
    }
    return status;
}

/* What there is */

int attn_adapter_count(const attn_adapter *adapter)
{
    return (int)adapter->count;
}

const attn_lora *attn_adapter_at(const attn_adapter *adapter, int index)
{
    return &adapter->loras[index];
}

typedef struct wanted {
    const char *prefix, *module;
} wanted;

static int compare_wanted(const void *key, const void *element)
{
    const wanted *w = key;
    return attn_name_compare(w->prefix, w->module, ((const attn_lora *)element)->module);
}

const attn_lora *attn_adapter_find(const attn_adapter *adapter, const char *prefix,
                                   const char *module)
{
    const wanted key = {.prefix = prefix, .module = module};
    return bsearch(&key, adapter->loras, adapter->count, sizeof *adapter->loras, compare_wanted);
}

size_t attn_adapter_mapped_bytes(const attn_adapter *adapter)
{
    return attn_weights_mapped_bytes(adapter->weights);
}

size_t attn_adapter_owned_bytes(const attn_adapter *adapter)
{
    return attn_weights_owned_bytes(adapter->weights);
}

const attn_warnings *attn_adapter_warnings(const attn_adapter *adapter)
{
    return &adapter->warnings;
}
