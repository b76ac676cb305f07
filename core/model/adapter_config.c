/* adapter_config.json, checked for whatever would make W + scale B A the wrong answer. */
#include "model/adapter_config.h"

#include "model/fields.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KNOWN = 1,      /* the one place where keys of the table stand */
    LIST_MAX = 4096 /* entries of a list, each held against every module */
};
#define RANK_MOST  65536
#define ALPHA_MOST 1e6

static const attn_field fields[] = {
#define FIELD(name, kind, low, high) \
    {KNOWN, #name, ATTN_FIELD_##kind, offsetof(attn_adapter_config, name), low, high, NULL},
#define OTHER(name)       {.where = KNOWN, .key = name, .kind = ATTN_FIELD_OTHER},
#define ABSENT(name, why) OTHER(name)
#define UNUSED(name)      OTHER(name)
#include "model/adapter_config.def"
#undef FIELD
#undef OTHER
#undef ABSENT
#undef UNUSED
    {.key = NULL}};

static const struct {
    const char *key, *why;
} absent[] = {
#define FIELD(name, kind, low, high)
#define OTHER(name)
#define ABSENT(name, why) {name, why},
#define UNUSED(name)
#include "model/adapter_config.def"
#undef FIELD
#undef OTHER
#undef ABSENT
#undef UNUSED
};

/* Lists */

static void free_list(attn_pattern_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    *list = (attn_pattern_list){0};
}

static attn_status no_memory(const attn_node *node)
{
    return attn_error_set(node->document->error, ATTN_NO_MEMORY, NULL, "%s: no memory to read it",
                          node->document->what);
}

static attn_status add(attn_pattern_list *list, const attn_node *node, const char *name,
                       double value)
{
    size_t bytes = strlen(name) + 1;
    char *copy = malloc(bytes);
    if (!copy)
        return no_memory(node);
    memcpy(copy, name, bytes);
    list->items[list->count++] = (attn_pattern_value){.name = copy, .value = value};
    return ATTN_OK;
}

static attn_status make_room(attn_pattern_list *list, const attn_node *node)
{
    if (attn_node_count(node) > LIST_MAX)
        return attn_node_refuse(node, ATTN_UNSUPPORTED, "at most %d entries", LIST_MAX);
    list->items = calloc(attn_node_count(node) + 1, sizeof *list->items);
    return list->items ? ATTN_OK : no_memory(node);
}

/* A key of a pattern is a regular expression; a path in dots is its own. */
static bool is_path(const char *text)
{
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return *text != '\0';
}

/* {"name": number, ...} */
static attn_status read_pattern(const attn_node *root, const char *key, double least, double most,
                                attn_pattern_list *list)
{
    attn_node object = attn_node_member(root, key);
    if (object.value && !attn_node_is_object(&object))
        return attn_node_refuse(&object, ATTN_INVALID, "an object of module names and numbers");
    attn_status status = make_room(list, &object);
    attn_node node = attn_node_next(&object, NULL);
    for (; node.key && status == ATTN_OK; node = attn_node_next(&object, &node)) {
        double value = 0;
        if (!is_path(node.key))
            return attn_node_refuse(&node, ATTN_UNSUPPORTED,
                                    "the key to be a module's name, not a regular expression");
        status = attn_node_real(&node, least, most, &value);
        if (status == ATTN_OK)
            status = add(list, &node, node.key, value);
    }
    return status;
}

/* A list of names; a string is a pattern that the training resolved, and the tensors tell how. */
static attn_status read_targets(const attn_node *root, attn_pattern_list *list)
{
    attn_node array = attn_node_member(root, "target_modules");
    if (!array.value || attn_node_string(&array))
        return ATTN_OK;
    if (!attn_node_is_array(&array))
        return attn_node_refuse(&array, ATTN_INVALID, "a list of module names, or a string");
    attn_status status = make_room(list, &array);
    for (size_t i = 0; i < attn_node_count(&array) && status == ATTN_OK; i++) {
        attn_node node = attn_node_element(&array, i);
        const char *name = attn_node_string(&node);
        status = name ? add(list, &node, name, 0)
                      : attn_node_refuse(&node, ATTN_INVALID, "a module name");
    }
    return status;
}

/* Refusals */

static attn_status check_text(const attn_node *root, const char *key, const char *expected,
                              bool required)
{
    attn_node node = attn_node_member(root, key);
    const char *text = attn_node_string(&node);
    if (node.value ? text && strcmp(text, expected) == 0 : !required)
        return ATTN_OK;
    return attn_node_refuse(&node, ATTN_UNSUPPORTED, "\"%s\"", expected);
}

/* PiSSA, OLoRA, CorDA and LoftQ take something out of the base weights that the adapter has. */
static attn_status check_init(const attn_node *root)
{
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    attn_node node = attn_node_member(root, "init_lora_weights");
    const char *text = attn_node_string(&node);
    bool good = !node.value || attn_node_is_bool(&node, true) || attn_node_is_bool(&node, false);
    for (size_t i = 0; text && i < sizeof harmless / sizeof *harmless; i++)
        good = good || strcmp(text, harmless[i]) == 0;
    if (good)
        return ATTN_OK;
    return attn_node_refuse(&node, ATTN_UNSUPPORTED,
                            "one that leaves the base weights alone; save the adapter with "
                            "path_initial_model_for_weight_conversion");
}

static attn_status check_absent(const attn_node *root)
{
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        attn_node node = attn_node_member(root, absent[i].key);
        bool is_list = attn_node_is_array(&node) || attn_node_is_object(&node);
        bool is_empty = is_list && attn_node_count(&node) == 0;
        if (node.value && !attn_node_is_bool(&node, false) && !is_empty)
            return attn_node_refuse(&node, ATTN_UNSUPPORTED, "%s: %s",
                                    attn_node_is_bool(&node, true) ? "false" : "none",
                                    absent[i].why);
    }
    return ATTN_OK;
}

/* The whole */

static attn_status read_numbers(const attn_node *root, attn_adapter_config *config)
{
    attn_status status = attn_fields_read(root, fields, KNOWN, config);
    attn_node r = attn_node_member(root, "r"), alpha = attn_node_member(root, "lora_alpha");
    if (status == ATTN_OK && !r.value)
        status = attn_node_refuse(&r, ATTN_INVALID, "the rank");
    if (status == ATTN_OK && !alpha.value)
        status = attn_node_refuse(&alpha, ATTN_INVALID, "a number");
    if (status == ATTN_OK)
        status = read_pattern(root, "rank_pattern", 1, RANK_MOST, &config->ranks);
    if (status == ATTN_OK)
        status = read_pattern(root, "alpha_pattern", -ALPHA_MOST, ALPHA_MOST, &config->alphas);
    if (status == ATTN_OK)
        status = read_targets(root, &config->targets);
    return status;
}

static attn_status read_and_close(attn_document *document, attn_adapter_config *config)
{
    attn_node root = attn_document_root(document);
    attn_status status = check_text(&root, "peft_type", "LORA", true);
    if (status == ATTN_OK)
        status = check_text(&root, "bias", "none", false);
    if (status == ATTN_OK)
        status = check_init(&root);
    if (status == ATTN_OK)
        status = check_absent(&root);
    if (status == ATTN_OK)
        status = read_numbers(&root, config);
    attn_fields_warn(&root, fields, KNOWN);
    attn_document_close(document);
    if (status != ATTN_OK)
        attn_adapter_config_free(config);
    return status;
}

attn_status attn_adapter_config_parse(const void *text, size_t bytes, const char *what,
                                      attn_adapter_config *config, attn_warnings *warnings,
                                      attn_error *error)
{
    attn_document document;
    *config = (attn_adapter_config){0};
    attn_status status = attn_document_parse(&document, text, bytes, what, warnings, error);
    return status == ATTN_OK ? read_and_close(&document, config) : status;
}

attn_status attn_adapter_config_read(const char *path, attn_adapter_config *config,
                                     attn_warnings *warnings, attn_error *error)
{
    attn_document document;
    *config = (attn_adapter_config){0};
    attn_status status = attn_document_read(&document, path, ATTN_DOCUMENT_MAX, warnings, error);
    return status == ATTN_OK ? read_and_close(&document, config) : status;
}

void attn_adapter_config_free(attn_adapter_config *config)
{
    free_list(&config->ranks);
    free_list(&config->alphas);
    free_list(&config->targets);
}

/* Modules */

bool attn_module_ends_in(const char *module, const char *name)
{
    size_t length = strlen(module), tail = strlen(name);
    if (tail > length || strcmp(module + length - tail, name) != 0)
        return false;
    return tail == length || module[length - tail - 1] == '.';
}

static double pick(const attn_pattern_list *list, const char *module, double otherwise)
{
    for (size_t i = 0; i < list->count; i++)
        if (attn_module_ends_in(module, list->items[i].name))
            return list->items[i].value;
    return otherwise;
}

int64_t attn_adapter_config_rank(const attn_adapter_config *config, const char *module)
{
    return (int64_t)pick(&config->ranks, module, (double)config->r);
}

float attn_adapter_config_scale(const attn_adapter_config *config, const char *module)
{
    double rank = (double)attn_adapter_config_rank(config, module);
    double alpha = pick(&config->alphas, module, config->lora_alpha);
    return (float)(alpha / (config->use_rslora ? sqrt(rank) : rank));
}
