/* A model's folder, written so that its two files appear whole or not at all.
 *
 * Each file grows under a temporary name ("config.json.partial"). Publishing removes the old
 * config.json, renames the weights and then config.json, so that whoever opens the folder finds the
 * old model, the new one, or none. A killed run leaves partial files that the next one replaces.
 * The folder is locked meanwhile: two runs cannot mix their files. */
#ifndef SERVER_INIT_MODEL_FOLDER_H
#define SERVER_INIT_MODEL_FOLDER_H

#include "attn/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum srv_folder_file {
    SRV_FOLDER_WEIGHTS, /* model.safetensors */
    SRV_FOLDER_CONFIG,  /* config.json */
    SRV_FOLDER_FILES
} srv_folder_file;

typedef struct srv_folder {
    const char *path; /* borrowed */
    int fd;           /* of the folder, locked; -1 when closed */
    int file[SRV_FOLDER_FILES];
    bool begun[SRV_FOLDER_FILES]; /* the partial file is ours to remove */
    bool made;                    /* the folder was not there */
    bool published;
} srv_folder;

/* Make the folder and those above it where they are missing. ATTN_INVALID: it holds a model (either
 * file) and `force` is false. ATTN_UNSUPPORTED, here and below: the system refuses; says which file
 * and why. To be closed whatever came of it. */
attn_status srv_folder_open(srv_folder *folder, const char *path, bool force, attn_error *error);

/* Begin the file, which will have so many bytes: a disk too full for them is refused at once. */
attn_status srv_folder_begin(srv_folder *folder, srv_folder_file file, size_t bytes,
                             attn_error *error);

/* Append to a file that was begun. */
attn_status srv_folder_write(srv_folder *folder, srv_folder_file file, const void *bytes,
                             size_t count, attn_error *error);

/* Give both files, which were begun and written, their names. */
attn_status srv_folder_publish(srv_folder *folder, attn_error *error);

/* Unless published, remove the partial files, and the folder if it was made. */
void srv_folder_close(srv_folder *folder);

#endif
