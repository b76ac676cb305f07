/* Opening a checkpoint: which files it is made of, and one list of its tensors by name. */
#include "model/weights.h"

#include "attn/quote.h"
#include "model/name.h"
#include "model/weights_files.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE_SUFFIX ".safetensors"
#define INDEX_SUFFIX  ".safetensors.index.json"

/* Files that are not there */

/* A file of `folder` in another format of weights, or "" in `name`. */
static void find_foreign(const char *folder, char name[ATTN_WHAT_MAX])
{
    static const char *const endings[] = {".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".npz"};
    *name = '\0';
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    while (listing && !*name && (entry = readdir(listing))) {
        const char *ending = strrchr(entry->d_name, '.');
        for (size_t i = 0; ending && i < sizeof endings / sizeof *endings; i++)
            if (strcmp(ending, endings[i]) == 0)
                attn_quote_end(name, ATTN_WHAT_MAX, entry->d_name);
    }
    if (listing)
        closedir(listing);
}

static bool refuse_absent(const char *folder, const char *stem, attn_error *error)
{
    char shown[ATTN_WHAT_MAX], foreign[ATTN_WHAT_MAX];
    attn_quote_end(shown, sizeof shown, folder);
    find_foreign(folder, foreign);
    if (*foreign)
        attn_error_set(error, ATTN_INVALID, shown,
                       "%s: there is %s but no %s" SINGLE_SUFFIX ", and only safetensors are read; "
                       "save it anew with save_pretrained(folder), or "
                       "safetensors.torch.save_file(state_dict, \"%s" SINGLE_SUFFIX "\")",
                       shown, foreign, stem, stem);
    else
        attn_error_set(error, ATTN_INVALID, shown,
                       "%s: there is neither %s" SINGLE_SUFFIX " nor %s" INDEX_SUFFIX, shown, stem,
                       stem);
    return false;
}

/* Files */

bool attn_weights_map(attn_weights *weights, const char *path, attn_error *error)
{
    attn_shard *shard = &weights->shards[weights->shard_count];
    if (attn_file_map(path, &shard->file, error) != ATTN_OK)
        return false;
    weights->shard_count++; /* from here on closing cleans it up */
    weights->mapped_bytes += shard->file.size;
    shard->tensors = attn_safetensors_open(shard->file.bytes, shard->file.size, path, error);
    return shard->tensors != NULL;
}

void *attn_weights_list(const attn_weights *weights, size_t count, size_t bytes, attn_error *error)
{
    void *list = calloc(count + 1, bytes); /* never none: a checkpoint may be without tensors */
    if (!list)
        attn_error_set(error, ATTN_NO_MEMORY, weights->what, "%s: no memory to list its tensors",
                       weights->what);
    return list;
}

void attn_weights_add(attn_weights *weights, const attn_stored *stored)
{
    weights->entries[weights->entry_count++] = (attn_entry){
        .stored = stored, .what = weights->shards[weights->shard_count - 1].tensors->what};
}

static int compare_entries(const void *left, const void *right)
{
    const attn_entry *a = left, *b = right;
    return strcmp(a->stored->name, b->stored->name);
}

static bool read_single(attn_weights *weights, const char *path, attn_error *error)
{
    weights->shards = attn_weights_list(weights, 1, sizeof *weights->shards, error);
    if (!weights->shards || !attn_weights_map(weights, path, error))
        return false;
    const attn_safetensors *tensors = weights->shards->tensors;
    int count = attn_safetensors_count(tensors);
    weights->entries = attn_weights_list(weights, (size_t)count, sizeof *weights->entries, error);
    for (int i = 0; weights->entries && i < count; i++)
        attn_weights_add(weights, attn_safetensors_at(tensors, i));
    return weights->entries != NULL;
}

static bool read_files(attn_weights *weights, const char *folder, const char *stem,
                       attn_error *error)
{
    attn_path single, index;
    if (attn_path_join(single, folder, stem, SINGLE_SUFFIX, error) != ATTN_OK ||
        attn_path_join(index, folder, stem, INDEX_SUFFIX, error) != ATTN_OK)
        return false;
    bool is_single = attn_file_exists(single);
    if (!is_single && !attn_file_exists(index))
        return refuse_absent(folder, stem, error);
    attn_quote_end(weights->what, sizeof weights->what, is_single ? single : index);
    if (is_single ? !read_single(weights, single, error)
                  : !attn_weights_read_index(weights, folder, index, error))
        return false;
    qsort(weights->entries, weights->entry_count, sizeof *weights->entries, compare_entries);
    return true;
}

attn_weights *attn_weights_open(const char *folder, const char *stem, attn_error *error)
{
    attn_weights *weights = calloc(1, sizeof *weights);
    if (!weights) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to open a checkpoint");
        return NULL;
    }
    if (read_files(weights, folder, stem, error))
        return weights;
    attn_weights_close(weights);
    return NULL;
}

void attn_weights_close(attn_weights *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->entry_count; i++) {
        free(weights->entries[i].floats);
        free(weights->entries[i].transposed);
    }
    free(weights->entries);
    for (size_t i = 0; i < weights->shard_count; i++) {
        attn_safetensors_close(weights->shards[i].tensors);
        attn_file_unmap(&weights->shards[i].file);
    }
    free(weights->shards);
    free(weights);
}

/* What there is */

size_t attn_weights_mapped_bytes(const attn_weights *weights)
{
    return weights->mapped_bytes;
}

size_t attn_weights_owned_bytes(const attn_weights *weights)
{
    return weights->owned_bytes;
}

int attn_weights_count(const attn_weights *weights)
{
    return (int)weights->entry_count;
}

const attn_stored *attn_weights_at(const attn_weights *weights, int index)
{
    return weights->entries[index].stored;
}

typedef struct wanted {
    const char *prefix, *name;
} wanted;

static int compare_wanted(const void *key, const void *element)
{
    const wanted *w = key;
    const attn_entry *entry = element;
    return attn_name_compare(w->prefix, w->name, entry->stored->name);
}

attn_entry *attn_weights_entry(const attn_weights *weights, const char *prefix, const char *name)
{
    const wanted key = {.prefix = prefix, .name = name};
    return bsearch(&key, weights->entries, weights->entry_count, sizeof *weights->entries,
                   compare_wanted);
}

const attn_stored *attn_weights_find(const attn_weights *weights, const char *prefix,
                                     const char *name)
{
    const attn_entry *entry = attn_weights_entry(weights, prefix, name);
    return entry ? entry->stored : NULL;
}

/* The N of "N.…" plainly spelled and below `most`, or -1. */
static int layer_number(const char *text, int most)
{
    int number = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at) && number < most; at++)
        number = 10 * number + (*at - '0');
    bool is_plain = at > text && *at == '.' && (*text != '0' || at == text + 1);
    return is_plain && number < most ? number : -1;
}

int attn_weights_layers(const attn_weights *weights, const char *prefix, int most)
{
    int layers = 0;
    size_t length = strlen(prefix);
    for (size_t i = 0; i < weights->entry_count; i++) {
        const char *name = weights->entries[i].stored->name;
        int number = strncmp(name, prefix, length) == 0 ? layer_number(name + length, most) : -1;
        layers = number >= layers ? number + 1 : layers;
    }
    return layers;
}
