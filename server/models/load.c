/* Weights come and go: read beside what is loaded, swapped in, and closed by a job when nobody
 * holds them any more. */
#include "server/models/registry_state.h"

#include "server/clock.h"
#include "server/text.h"

#include <stdio.h>
#include <stdlib.h>

static void forget(srv_registry *registry, const srv_model *model)
{
    pthread_mutex_lock(&registry->lock);
    srv_model **link = &registry->models;
    while (*link != model)
        link = &(*link)->next;
    *link = model->next;
    pthread_mutex_unlock(&registry->lock);
}

/* The whole of the job: it has no tiles. */
static bool close_weights(srv_job *job, attn_phase *phase)
{
    srv_model *model = (srv_model *)(void *)job;
    (void)phase;
    attn_model_close(model->weights);
    return false;
}

static void after_close(srv_job *job)
{
    srv_model *model = (srv_model *)(void *)job;
    srv_registry *registry = model->registry;
    forget(registry, model);
    free(model);
    srv_registry_tell_unloads(registry);
}

/* A model with two references, its entry's and the caller's. */
static srv_model *open_model(srv_registry *registry, const char *path, const char *name,
                             attn_error *error)
{
    srv_model *model = calloc(1, sizeof *model);
    if (!model) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for model %.128s", name);
        return NULL;
    }
    model->closing.next = close_weights;
    model->closing.done = after_close;
    model->registry = registry;
    model->references = 2;
    snprintf(model->name, sizeof model->name, "%s", name);
    model->weights = attn_model_open(path, name, error);
    if (model->weights)
        return model;
    free(model);
    return NULL;
}

/* The old weights, to be released. */
static srv_model *swap(srv_registry *registry, srv_model_entry *entry, srv_model *model)
{
    srv_model *old = entry->current;
    model->serial = ++registry->serial;
    model->next = registry->models;
    registry->models = model;
    entry->current = model;
    entry->reason[0] = '\0';
    return old;
}

static void log_loaded(srv_registry *registry, const srv_model *model, int64_t began_ns)
{
    const attn_model_info *info = attn_model_info_of(model->weights);
    for (int i = 0; i < info->warning_count; i++)
        srv_log_event(registry->log, SRV_LOG_WARN, "model warning",
                      (srv_log_field[]){srv_log_string("model", model->name),
                                        srv_log_string("warning", info->warnings[i])},
                      2);
    const srv_log_field fields[] = {
        srv_log_string("model", model->name),
        srv_log_string("type", info->type),
        srv_log_int("mapped_bytes", (int64_t)info->mapped_bytes),
        srv_log_int("owned_bytes", (int64_t)info->owned_bytes),
        srv_log_real("load_ms", srv_round_ms((double)(srv_now_ns() - began_ns) * 1e-6)),
    };
    srv_log_event(registry->log, SRV_LOG_INFO, "model loaded", fields,
                  sizeof fields / sizeof *fields);
}

static void log_failed(srv_registry *registry, const char *name, const attn_error *error)
{
    srv_log_event(
        registry->log, SRV_LOG_ERROR, "model not loaded",
        (srv_log_field[]){srv_log_string("model", name), srv_log_string("error", error->message)},
        2);
}

/* Lock held, in a turn. */
static srv_model_entry *begin_load(srv_registry *registry, const char *name)
{
    pthread_mutex_lock(&registry->lock);
    srv_model_entry *entry = srv_registry_add(registry, name);
    if (entry)
        entry->loading = true;
    pthread_mutex_unlock(&registry->lock);
    return entry;
}

/* Whatever is loaded of that name stays. */
static attn_status note_absent(srv_registry *registry, const char *name, attn_error *error)
{
    attn_error_set(error, ATTN_INVALID, "model", "model_dir has no folder \"%.128s\"", name);
    pthread_mutex_lock(&registry->lock);
    srv_model_entry *entry = srv_registry_find(registry, name);
    if (entry) {
        entry->loading = false;
        snprintf(entry->reason, sizeof entry->reason, "%s", error->message);
    }
    pthread_mutex_unlock(&registry->lock);
    return error->status;
}

attn_status srv_registry_load(srv_registry *registry, const char *name, bool *unknown,
                              attn_error *error)
{
    char path[SRV_MODEL_PATH_BYTES];
    uint64_t stamp;
    int64_t began_ns = srv_now_ns();
    srv_registry_path(registry, name, path);
    *unknown = !srv_model_folder_stamp(path, &stamp);
    if (*unknown)
        return note_absent(registry, name, error);
    srv_model_entry *entry = begin_load(registry, name);
    if (!entry)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for model %.128s", name);
    srv_model *model = open_model(registry, path, name, error), *old = NULL;
    pthread_mutex_lock(&registry->lock);
    entry->loading = false;
    if (model) {
        model->stamp = stamp;
        old = swap(registry, entry, model);
    } else {
        snprintf(entry->reason, sizeof entry->reason, "%s", error->message);
    }
    pthread_mutex_unlock(&registry->lock);
    srv_model_release(old);
    if (!model) {
        log_failed(registry, name, error);
        return error->status;
    }
    log_loaded(registry, model, began_ns);
    srv_model_release(model);
    return ATTN_OK;
}
