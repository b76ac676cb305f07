/* Names, what they stand for, and references to it. */
#include "server/models/registry_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The link that leads to the entry of that name, or to the first one behind it. */
static srv_model_entry **link_of(const srv_registry *registry, const char *name)
{
    srv_model_entry **link = (srv_model_entry **)&registry->entries;
    while (*link && strcmp((*link)->name, name) < 0)
        link = &(*link)->next;
    return link;
}

srv_model_entry *srv_registry_find(const srv_registry *registry, const char *name)
{
    srv_model_entry *entry = *link_of(registry, name);
    return entry && strcmp(entry->name, name) == 0 ? entry : NULL;
}

srv_model_entry *srv_registry_add(srv_registry *registry, const char *name)
{
    srv_model_entry *entry = srv_registry_find(registry, name);
    if (entry || !(entry = calloc(1, sizeof *entry)))
        return entry;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->reason, sizeof entry->reason, SRV_MODEL_NOT_LOADED);
    srv_model_entry **link = link_of(registry, name);
    entry->next = *link;
    *link = entry;
    return entry;
}

srv_model *srv_registry_detach(srv_model_entry *entry, const char *reason)
{
    srv_model *model = entry->current;
    entry->current = NULL;
    snprintf(entry->reason, sizeof entry->reason, "%s", reason);
    return model;
}

void srv_registry_remove(srv_registry *registry, srv_model_entry *entry)
{
    *link_of(registry, entry->name) = entry->next;
    free(entry);
}

void srv_registry_path(const srv_registry *registry, const char *name,
                       char path[SRV_MODEL_PATH_BYTES])
{
    snprintf(path, SRV_MODEL_PATH_BYTES, "%.*s/%s", SRV_MODEL_PATH_BYTES - SRV_MODEL_NAME_BYTES - 1,
             registry->folder, name);
}

/* --- references ------------------------------------------------------------------------------ */

/* Loading it is all that it takes. */
static bool waits_for_a_load(const srv_registry *registry, const srv_model_entry *entry)
{
    return registry->is_explicit && (strcmp(entry->reason, SRV_MODEL_NOT_LOADED) == 0 ||
                                     strcmp(entry->reason, SRV_MODEL_UNLOADED) == 0);
}

static srv_problem why_not(const srv_registry *registry, const srv_model_entry *entry,
                           const char *name)
{
    if (entry && entry->loading)
        return srv_problem_make(SRV_PROBLEM_LOADING, "model",
                                "model \"%.128s\" is being loaded; try again later", name);
    if (entry && waits_for_a_load(registry, entry))
        return srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                                "model \"%.120s\" is not loaded; POST "
                                "/v2/repository/models/%.120s/load loads it",
                                name, name);
    if (entry)
        return srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                                "model \"%.128s\" is not loaded: %.150s", name, entry->reason);
    return srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                            "no model \"%.64s\" is loaded; GET /v1/models lists them", name);
}

srv_model *srv_registry_acquire(srv_registry *registry, const char *name, srv_problem *problem)
{
    if (!registry) {
        *problem = why_not(NULL, NULL, name);
        return NULL;
    }
    pthread_mutex_lock(&registry->lock);
    const srv_model_entry *entry = srv_registry_find(registry, name);
    srv_model *model = entry ? entry->current : NULL;
    if (model)
        model->references++;
    else
        *problem = why_not(registry, entry, name);
    pthread_mutex_unlock(&registry->lock);
    return model;
}

const attn_model *srv_model_weights(const srv_model *model)
{
    return model->weights;
}

void srv_model_release(srv_model *model)
{
    if (!model)
        return;
    pthread_mutex_lock(&model->registry->lock);
    bool last = --model->references == 0;
    pthread_mutex_unlock(&model->registry->lock);
    if (last)
        srv_executor_submit(model->registry->executor, &model->closing);
}

/* --- looking --------------------------------------------------------------------------------- */

const char *srv_model_state_name(srv_model_state state)
{
    static const char *const names[] = {
        [SRV_MODEL_UNAVAILABLE] = "UNAVAILABLE",
        [SRV_MODEL_LOADING] = "LOADING",
        [SRV_MODEL_READY] = "READY",
    };
    return names[state];
}

static srv_model_status status_of(const srv_model_entry *entry)
{
    srv_model_status status = {.name = entry->name, .reason = entry->reason};
    if (entry->current) {
        status.state = SRV_MODEL_READY;
        status.info = attn_model_info_of(entry->current->weights);
    } else if (entry->loading) {
        status.state = SRV_MODEL_LOADING;
    }
    return status;
}

int srv_registry_visit(srv_registry *registry, const char *name, srv_model_visit *visit,
                       void *context)
{
    int count = 0;
    if (!registry)
        return 0;
    pthread_mutex_lock(&registry->lock);
    for (const srv_model_entry *entry = registry->entries; entry; entry = entry->next) {
        if (name && strcmp(name, entry->name) != 0)
            continue;
        srv_model_status status = status_of(entry);
        visit(context, &status);
        count++;
    }
    pthread_mutex_unlock(&registry->lock);
    return count;
}

bool srv_registry_is_settled(srv_registry *registry)
{
    if (!registry)
        return true;
    pthread_mutex_lock(&registry->lock);
    bool settled = registry->settled;
    pthread_mutex_unlock(&registry->lock);
    return settled;
}

/* --- start and end --------------------------------------------------------------------------- */

/* Fails where a rescan would. */
static attn_status try_folder(const char *folder, srv_log *log, attn_error *error)
{
    srv_model_names names;
    attn_status status = srv_model_names_read(&names, folder, log, error);
    srv_model_names_free(&names);
    return status;
}

srv_registry *srv_registry_open(const char *folder, bool is_explicit, srv_executor *executor,
                                srv_log *log, attn_error *error)
{
    if (folder[0] && try_folder(folder, log, error) != ATTN_OK)
        return NULL;
    srv_registry *registry = calloc(1, sizeof *registry);
    if (!registry) {
        attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for the models");
        return NULL;
    }
    snprintf(registry->folder, sizeof registry->folder, "%s", folder);
    registry->is_explicit = is_explicit;
    registry->executor = executor;
    registry->log = log;
    registry->settled = !folder[0];
    pthread_mutex_init(&registry->lock, NULL);
    return registry;
}

void srv_registry_stop(srv_registry *registry)
{
    if (!registry)
        return;
    pthread_mutex_lock(&registry->lock);
    registry->stopped = true;
    pthread_mutex_unlock(&registry->lock);
}

void srv_registry_close(srv_registry *registry)
{
    if (!registry)
        return;
    for (srv_model_entry *entry = registry->entries, *next; entry; entry = next) {
        next = entry->next;
        if (entry->current) {
            attn_model_close(entry->current->weights);
            free(entry->current);
        }
        free(entry);
    }
    pthread_mutex_destroy(&registry->lock);
    free(registry);
}
