/* Folders as directory entries; what is in the files is for attn_model_open to judge. */
#include "server/models/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEPTH = 3 /* <model>/adapters/<name>/file */
};

bool srv_model_name_is_valid(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = strlen(name);
    return length > 0 && length < SRV_MODEL_NAME_BYTES && name[0] != '.' &&
           strspn(name, allowed) == length;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* `name` is valid, and so fits. */
static bool add(srv_model_names *names, const char *name)
{
    bool full = (names->count & (names->count - 1)) == 0; /* the room doubles at powers of two */
    if (full) {
        size_t room = names->count ? 2 * names->count : 1;
        void *list = realloc(names->list, room * sizeof *names->list);
        if (!list)
            return false;
        names->list = list;
    }
    strcpy(names->list[names->count++], name);
    return true;
}

static bool is_folder(int directory, const char *name)
{
    struct stat status;
    return fstatat(directory, name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

static attn_status note(srv_model_names *names, DIR *directory, const char *name, srv_log *log,
                        attn_error *error)
{
    if (name[0] == '.' || !is_folder(dirfd(directory), name))
        return ATTN_OK;
    if (!srv_model_name_is_valid(name)) {
        srv_log_event(log, SRV_LOG_WARN,
                      "a folder of model_dir is passed over: a model's name is 1 to 128 of "
                      "A-Za-z0-9._-",
                      (srv_log_field[]){srv_log_string("folder", name)}, 1);
        return ATTN_OK;
    }
    return add(names, name) ? ATTN_OK
                            : attn_error_set(error, ATTN_NO_MEMORY, "model_dir",
                                             "no memory for the names of the models");
}

attn_status srv_model_names_read(srv_model_names *names, const char *folder, srv_log *log,
                                 attn_error *error)
{
    *names = (srv_model_names){0};
    DIR *directory = opendir(folder);
    if (!directory)
        return attn_error_set(error, ATTN_INVALID, "model_dir",
                              "model_dir: %.200s cannot be read: %s; expected a folder with a "
                              "folder a model",
                              folder, strerror(errno));
    attn_status status = ATTN_OK;
    const struct dirent *entry;
    while (status == ATTN_OK && (errno = 0, entry = readdir(directory)))
        status = note(names, directory, entry->d_name, log, error);
    if (status == ATTN_OK && errno != 0)
        status = attn_error_set(error, ATTN_INVALID, "model_dir",
                                "model_dir: %.200s cannot be read to its end: %s", folder,
                                strerror(errno));
    closedir(directory);
    if (names->count)
        qsort(names->list, names->count, sizeof *names->list, compare);
    return status;
}

bool srv_model_names_hold(const srv_model_names *names, const char *name)
{
    return names->count && bsearch(name, names->list, names->count, sizeof *names->list, compare);
}

void srv_model_names_free(srv_model_names *names)
{
    free(names->list);
    *names = (srv_model_names){0};
}

/* FNV-1a. */
static uint64_t hash(uint64_t value, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        value = (value ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return value;
}

static uint64_t hash_file(uint64_t value, const struct stat *status)
{
    const int64_t facts[] = {(int64_t)status->st_ino, (int64_t)status->st_size,
                             (int64_t)status->st_mtim.tv_sec, (int64_t)status->st_mtim.tv_nsec};
    return hash(value, facts, sizeof facts);
}

static bool is_read(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending && (strcmp(ending, ".json") == 0 || strcmp(ending, ".safetensors") == 0);
}

/* The sum of what the files below hash to, which does not depend on the order of the entries.
 * `path` is the hash of the names above. */
static uint64_t sum(int directory, uint64_t path, int depth)
{
    uint64_t total = 0;
    DIR *entries = fdopendir(directory);
    if (!entries) {
        close(directory);
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(entries));) {
        const char *name = entry->d_name;
        struct stat status;
        if (name[0] == '.' || fstatat(dirfd(entries), name, &status, 0) != 0)
            continue;
        uint64_t named = hash(path, name, strlen(name) + 1);
        if (S_ISREG(status.st_mode) && is_read(name))
            total += hash_file(named, &status);
        int below = S_ISDIR(status.st_mode) && depth > 1
                        ? openat(dirfd(entries), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                        : -1;
        if (below >= 0)
            total += sum(below, named, depth - 1);
    }
    closedir(entries);
    return total;
}

bool srv_model_folder_stamp(const char *folder, uint64_t *stamp)
{
    static const uint64_t offset_basis = 0xcbf29ce484222325;
    int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return false;
    *stamp = sum(directory, offset_basis, DEPTH);
    return true;
}
