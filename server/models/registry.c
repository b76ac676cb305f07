/* Names, references, and the swap of old weights for new. */
#include "server/models/registry_state.h"

#include "server/clock.h"

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
    snprintf(entry->reason, sizeof entry->reason, "not loaded");
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

static srv_problem why_not(const srv_model_entry *entry, const char *name)
{
    if (entry && entry->loading)
        return srv_problem_make(SRV_PROBLEM_LOADING, "model",
                                "model \"%.128s\" is being loaded; try again later", name);
    if (entry)
        return srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                                "model \"%.128s\" is not loaded: %.150s", name, entry->reason);
    return srv_problem_make(SRV_PROBLEM_NOT_FOUND, "model",
                            "no model \"%.64s\" is loaded; GET /v1/models lists them", name);
}

srv_model *srv_registry_acquire(srv_registry *registry, const char *name, srv_problem *problem)
{
    if (!registry) {
        *problem = why_not(NULL, name);
        return NULL;
    }
    pthread_mutex_lock(&registry->lock);
    const srv_model_entry *entry = srv_registry_find(registry, name);
    srv_model *model = entry ? entry->current : NULL;
    if (model)
        model->references++;
    else
        *problem = why_not(entry, name);
    pthread_mutex_unlock(&registry->lock);
    return model;
}

const attn_model *srv_model_weights(const srv_model *model)
{
    return model->weights;
}

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

/* --- loading --------------------------------------------------------------------------------- */

/* A model with the one reference that its entry will have. */
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
    model->references = 1;
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
        srv_log_real("load_ms", (double)((srv_now_ns() - began_ns) / 1000) * 1e-3),
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
    if (model)
        log_loaded(registry, model, began_ns); /* only a later turn can take it away */
    else
        log_failed(registry, name, error);
    return model ? ATTN_OK : error->status;
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
