/* The folders that models are in: which there are, and whether one has changed. */
#ifndef SERVER_MODELS_FOLDER_H
#define SERVER_MODELS_FOLDER_H

#include "attn/status.h"
#include "server/log.h"
#include "server/models/registry.h"

typedef struct srv_model_names {
    char (*list)[SRV_MODEL_NAME_BYTES]; /* owned, in strcmp's order */
    size_t count;
} srv_model_names;

/* The folders in `folder` that can be models, links to folders included. Files and names that start
 * with a dot are passed over, other names that no model can have with a warning. Whatever it
 * returns, srv_model_names_free ends the list. Errors name the folder. */
attn_status srv_model_names_read(srv_model_names *names, const char *folder, srv_log *log,
                                 attn_error *error);

bool srv_model_names_hold(const srv_model_names *names, const char *name);

void srv_model_names_free(srv_model_names *names);

/* A number that changes when a model's files are others: from name, inode, size and time of change
 * of each .json and .safetensors file, those of its adapters included. False: no such folder. */
bool srv_model_folder_stamp(const char *folder, uint64_t *stamp);

#endif
