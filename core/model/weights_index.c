/* The index of a sharded checkpoint: {"weight_map": {"tensor": "file.safetensors", ...}}.
 *
 * It is as hostile as the files: a file is named plainly, so it lies in the folder; every tensor of
 * the map must be in its file. Sorted by file, the map costs one opening a shard and one search a
 * tensor. */
#include "model/document.h"
#include "model/weights_files.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    INDEX_MAX = 16 << 20, /* bytes; the largest published models stay below 4 MiB */
    SHARDS_MAX = 1024     /* a mapping each, of the 65530 that Linux grants a process */
};

typedef struct mapped_name {
    const char *name, *file; /* borrowed from the document */
} mapped_name;

/* The weight_map as a list. */
typedef struct name_list {
    mapped_name *names; /* owned */
    size_t count;
} name_list;

/* A name made of plain characters, that no shell or path reads otherwise. */
static bool is_plain(const char *file)
{
    static const char ending[] = ".safetensors";
    size_t length = strlen(file);
    for (const char *c = file; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return *file != '.' && length >= sizeof ending && length <= NAME_MAX &&
           strcmp(file + length - (sizeof ending - 1), ending) == 0;
}

static int compare_files(const void *left, const void *right)
{
    const mapped_name *a = left, *b = right;
    int order = strcmp(a->file, b->file);
    return order ? order : strcmp(a->name, b->name);
}

static bool read_map(attn_weights *weights, const attn_node *map, name_list *list)
{
    attn_error *error = map->document->error;
    if (!attn_node_is_object(map) || attn_node_count(map) == 0) {
        attn_node_refuse(map, ATTN_MALFORMED, "an object of tensor names and their files");
        return false;
    }
    list->names = attn_weights_list(weights, attn_node_count(map), sizeof *list->names, error);
    if (!list->names)
        return false;
    for (attn_node node = attn_node_next(map, NULL); node.key; node = attn_node_next(map, &node)) {
        const char *file = attn_node_string(&node);
        if (!file || !is_plain(file)) {
            attn_node_refuse(&node, ATTN_MALFORMED,
                             "the plain name of a .safetensors file in the same folder");
            return false;
        }
        list->names[list->count++] = (mapped_name){.name = node.key, .file = file};
    }
    qsort(list->names, list->count, sizeof *list->names, compare_files);
    return true;
}

static size_t count_files(const name_list *list)
{
    size_t count = 1;
    for (size_t i = 1; i < list->count; i++)
        count += strcmp(list->names[i - 1].file, list->names[i].file) != 0;
    return count;
}

static bool make_room(attn_weights *weights, const name_list *list, attn_error *error)
{
    size_t files = count_files(list);
    if (files > SHARDS_MAX) {
        attn_error_set(error, ATTN_UNSUPPORTED, "weight_map",
                       "%s: weight_map lists %zu files, expected at most %d", weights->what, files,
                       SHARDS_MAX);
        return false;
    }
    weights->shards = attn_weights_list(weights, files, sizeof *weights->shards, error);
    weights->entries = attn_weights_list(weights, list->count, sizeof *weights->entries, error);
    return weights->shards && weights->entries;
}

static bool open_shard(attn_weights *weights, const char *folder, const char *file,
                       attn_error *error)
{
    attn_path path;
    if (attn_path_join(path, folder, file, "", error) != ATTN_OK)
        return false;
    if (!attn_file_exists(path)) {
        attn_error_set(error, ATTN_INVALID, file,
                       "%s: lists the shard %s, which is not in the folder", weights->what, file);
        return false;
    }
    return attn_weights_map(weights, path, error);
}

/* Find every listed tensor; `list` is sorted by file. */
static bool collect(attn_weights *weights, const char *folder, const name_list *list,
                    attn_error *error)
{
    const char *file = "";
    for (size_t i = 0; i < list->count; i++) {
        const mapped_name *wanted = &list->names[i];
        if (strcmp(wanted->file, file) != 0 &&
            !open_shard(weights, folder, file = wanted->file, error))
            return false;
        const attn_safetensors *tensors = weights->shards[weights->shard_count - 1].tensors;
        const attn_stored *stored = attn_safetensors_find(tensors, wanted->name);
        if (!stored)
            return attn_safetensors_refuse(tensors->what, error, ATTN_INVALID, wanted->name,
                                           "is missing, though the index says that it is here");
        attn_weights_add(weights, stored);
    }
    return true;
}

bool attn_weights_read_index(attn_weights *weights, const char *folder, const char *path,
                             attn_error *error)
{
    attn_document document;
    attn_warnings unused = {0};
    if (attn_document_read(&document, path, INDEX_MAX, &unused, error) != ATTN_OK)
        return false;
    name_list list = {0};
    attn_node root = attn_document_root(&document);
    attn_node map = attn_node_member(&root, "weight_map");
    bool good = read_map(weights, &map, &list) && make_room(weights, &list, error) &&
                collect(weights, folder, &list, error);
    free(list.names);
    attn_document_close(&document);
    return good;
}
