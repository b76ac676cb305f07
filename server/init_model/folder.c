/* Everything goes through the folder's descriptor, so that moving the folder meanwhile is no
 * trap. */
#include "server/init_model/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *name, *partial;
} files[] = {
    [SRV_FOLDER_WEIGHTS] = {"model.safetensors", "model.safetensors.partial"},
    [SRV_FOLDER_CONFIG] = {"config.json", "config.json.partial"},
};

/* What errno says about a file of the folder, or about the folder itself ("" then). */
static attn_status failed(const srv_folder *folder, const char *what, const char *name,
                          attn_error *error)
{
    const char *advice = errno == ENOSPC || errno == EDQUOT || errno == EFBIG
                             ? "; make room, or ask for a smaller model"
                             : "";
    return attn_error_set(error, ATTN_UNSUPPORTED, NULL, "init-model: cannot %s %.120s%s%s: %s%s",
                          what, folder->path, *name ? "/" : "", name, strerror(errno), advice);
}

/* mkdir -p. */
static attn_status make(srv_folder *folder, attn_error *error)
{
    char path[PATH_MAX];
    size_t length = strlen(folder->path);
    while (length > 1 && folder->path[length - 1] == '/')
        length--;
    if (length >= sizeof path) {
        errno = ENAMETOOLONG;
        return failed(folder, "make", "", error);
    }
    memcpy(path, folder->path, length);
    path[length] = '\0';
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return failed(folder, "make", "", error);
        *slash = '/';
    }
    folder->made = mkdir(path, 0777) == 0;
    return folder->made || errno == EEXIST ? ATTN_OK : failed(folder, "make", "", error);
}

static attn_status lock(const srv_folder *folder, attn_error *error)
{
    /* Some network file systems cannot lock a folder; they are written without. */
    if (flock(folder->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return ATTN_OK;
    return attn_error_set(error, ATTN_UNSUPPORTED, NULL,
                          "init-model: another run is writing %.120s; wait for its end",
                          folder->path);
}

static attn_status refuse_model(const srv_folder *folder, attn_error *error)
{
    for (int i = 0; i < SRV_FOLDER_FILES; i++) {
        struct stat there;
        if (fstatat(folder->fd, files[i].name, &there, AT_SYMLINK_NOFOLLOW) == 0)
            return attn_error_set(error, ATTN_INVALID, NULL,
                                  "init-model: %.120s holds a %s; name another folder, or say "
                                  "--force to replace it",
                                  folder->path, files[i].name);
    }
    return ATTN_OK;
}

attn_status srv_folder_open(srv_folder *folder, const char *path, bool force, attn_error *error)
{
    *folder = (srv_folder){.path = path, .fd = -1, .file = {-1, -1}};
    attn_status status = make(folder, error);
    if (status != ATTN_OK)
        return status;
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return failed(folder, "open", "", error);
    status = lock(folder, error);
    return status == ATTN_OK && !force ? refuse_model(folder, error) : status;
}

attn_status srv_folder_begin(srv_folder *folder, srv_folder_file file, size_t bytes,
                             attn_error *error)
{
    const char *name = files[file].partial;
    unlinkat(folder->fd, name, 0);
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return failed(folder, "create", name, error);
    folder->file[file] = fd;
    folder->begun[file] = true;
    /* Where a file system cannot reserve, a full disk shows when it is written. */
    if (fallocate(fd, 0, 0, (off_t)bytes) != 0 && errno != EOPNOTSUPP && errno != EINTR)
        return failed(folder, "reserve the bytes of", name, error);
    return ATTN_OK;
}

attn_status srv_folder_write(srv_folder *folder, srv_folder_file file, const void *bytes,
                             size_t count, attn_error *error)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t written = write(folder->file[file], from, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return failed(folder, "write", files[file].partial, error);
        from += written;
        count -= (size_t)written;
    }
    return ATTN_OK;
}

static attn_status rename_file(srv_folder *folder, srv_folder_file file, attn_error *error)
{
    int renamed = renameat(folder->fd, files[file].partial, folder->fd, files[file].name);
    return renamed == 0 ? ATTN_OK : failed(folder, "name", files[file].name, error);
}

attn_status srv_folder_publish(srv_folder *folder, attn_error *error)
{
    for (int i = 0; i < SRV_FOLDER_FILES; i++) {
        int fd = folder->file[i];
        folder->file[i] = -1;
        bool kept = fsync(fd) == 0;
        /* Some file systems tell only on closing that they had no room. */
        if (close(fd) != 0 || !kept)
            return failed(folder, "write", files[i].partial, error);
    }
    if (unlinkat(folder->fd, files[SRV_FOLDER_CONFIG].name, 0) != 0 && errno != ENOENT)
        return failed(folder, "replace", files[SRV_FOLDER_CONFIG].name, error);
    attn_status status = rename_file(folder, SRV_FOLDER_WEIGHTS, error);
    if (status == ATTN_OK)
        status = rename_file(folder, SRV_FOLDER_CONFIG, error);
    folder->published = status == ATTN_OK;
    if (folder->published && fsync(folder->fd) != 0)
        return failed(folder, "write", "", error);
    return status;
}

void srv_folder_close(srv_folder *folder)
{
    if (folder->fd < 0)
        return;
    for (int i = 0; i < SRV_FOLDER_FILES; i++) {
        if (folder->file[i] >= 0)
            close(folder->file[i]);
        if (folder->begun[i] && !folder->published)
            unlinkat(folder->fd, files[i].partial, 0);
    }
    if (folder->made && !folder->published)
        rmdir(folder->path);
    close(folder->fd);
    folder->fd = -1;
}
