/* The LoRA adapters of a model: one folder each under <model>/adapters. */
#include "model/file.h"
#include "model/loaded.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_ADAPTERS = 1024
};

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A folder, or a link to one; a file beside the adapters is nobody's mistake. */
static bool is_folder(DIR *listing, const char *name)
{
    struct stat about;
    return fstatat(dirfd(listing), name, &about, 0) == 0 && S_ISDIR(about.st_mode);
}

/* Names of the folder's folders that are not hidden, sorted, into model->adapter_names. */
static attn_status list_names(attn_model *model, const char *path, DIR *listing, attn_error *error)
{
    const char **names = attn_model_block(model, MOST_ADAPTERS * sizeof *names, error);
    if (!names)
        return ATTN_NO_MEMORY;
    model->adapter_names = names;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.' || !is_folder(listing, entry->d_name))
            continue;
        if (model->adapter_count == MOST_ADAPTERS)
            return attn_error_set(error, ATTN_UNSUPPORTED, NULL, "%s: more than %d adapters", path,
                                  MOST_ADAPTERS);
        names[model->adapter_count] = attn_model_text(model, entry->d_name, "", error);
        if (!names[model->adapter_count])
            return ATTN_NO_MEMORY;
        model->adapter_count++;
    }
    qsort(names, (size_t)model->adapter_count, sizeof *names, compare);
    return ATTN_OK;
}

static attn_status open_adapter(attn_model *model, const char *folder, int index, attn_error *error)
{
    attn_path path;
    attn_status status = attn_path_join(path, folder, model->adapter_names[index], "", error);
    if (status != ATTN_OK)
        return status;
    model->adapters[index] = attn_adapter_open(path, error);
    if (!model->adapters[index])
        return error->status;
    return attn_adapter_check(model->adapters[index], model->modules, model->module_count, error);
}

attn_status attn_adapters_load(attn_model *model, const char *folder, attn_error *error)
{
    attn_path path;
    attn_status status = attn_path_join(path, folder, "adapters", "", error);
    if (status != ATTN_OK)
        return status;
    DIR *listing = opendir(path);
    if (!listing && errno == ENOENT)
        return ATTN_OK;
    if (!listing)
        return attn_error_set(error, ATTN_INVALID, NULL, "%s: %s", path, strerror(errno));
    status = list_names(model, path, listing, error);
    closedir(listing);
    if (status != ATTN_OK)
        return status;
    model->adapters = attn_model_block(
        model, (size_t)(model->adapter_count + 1) * sizeof *model->adapters, error);
    if (!model->adapters)
        return ATTN_NO_MEMORY;
    for (int i = 0; i < model->adapter_count && status == ATTN_OK; i++)
        status = open_adapter(model, path, i, error);
    return status;
}
