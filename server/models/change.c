/* Changes take turns: each is a job of the executor, submitted when the one before has had its
 * turn. An unload that still waits for whoever uses the model has had its turn already, so that it
 * holds up nobody. */
#include "server/models/registry_state.h"

#include <string.h>

static srv_model_change *of_job(srv_job *job)
{
    return (srv_model_change *)(void *)job;
}

void srv_registry_queue(srv_registry *registry, srv_model_change *change)
{
    change->registry = registry;
    change->next = NULL;
    pthread_mutex_lock(&registry->lock);
    bool alone = !registry->first;
    if (alone)
        registry->first = change;
    else
        registry->last->next = change;
    registry->last = change;
    pthread_mutex_unlock(&registry->lock);
    srv_registry_go_on(registry, alone ? change : NULL);
}

srv_model_change *srv_registry_dequeue(srv_registry *registry)
{
    return registry->first = registry->first->next;
}

void srv_registry_go_on(srv_registry *registry, srv_model_change *next)
{
    if (next)
        srv_executor_submit(registry->executor, &next->job);
}

/* --- load ------------------------------------------------------------------------------------ */

static bool next_load(srv_job *job, attn_phase *phase)
{
    *phase = (attn_phase){"load", 1, SRV_LOAD_NS};
    return job->started_ns == 0;
}

static attn_status run_load(srv_job *job, int64_t tile, attn_arena *scratch)
{
    srv_model_change *change = of_job(job);
    (void)tile;
    (void)scratch;
    pthread_mutex_lock(&change->registry->lock);
    bool stopped = change->registry->stopped;
    pthread_mutex_unlock(&change->registry->lock);
    if (stopped)
        change->error.status = ATTN_CANCELLED;
    else
        srv_registry_load(change->registry, change->name, &change->unknown, &change->error);
    return ATTN_OK;
}

static void done_load(srv_job *job)
{
    srv_model_change *change = of_job(job);
    srv_registry *registry = change->registry;
    if (job->started_ns == 0)
        change->error.status = ATTN_CANCELLED;
    pthread_mutex_lock(&registry->lock);
    srv_model_change *next = srv_registry_dequeue(registry);
    pthread_mutex_unlock(&registry->lock);
    srv_registry_go_on(registry, next);
    change->finished(change);
}

/* --- unload ---------------------------------------------------------------------------------- */

static bool next_unload(srv_job *job, attn_phase *phase)
{
    (void)job;
    (void)phase;
    return false;
}

/* Lock held: whether weights of that name and of at most that serial are still in use. */
static bool is_used(const srv_registry *registry, const char *name, uint64_t newest)
{
    for (const srv_model *model = registry->models; model; model = model->next)
        if (model->serial <= newest && strcmp(model->name, name) == 0)
            return true;
    return false;
}

/* Lock held: take an unload off the list that has nothing to wait for any more; NULL: none is. */
static srv_model_change *take_left(srv_registry *registry)
{
    srv_model_change **link = &registry->leaving;
    while (*link && is_used(registry, (*link)->name, (*link)->newest))
        link = &(*link)->next;
    srv_model_change *change = *link;
    if (change)
        *link = change->next;
    return change;
}

void srv_registry_tell_unloads(srv_registry *registry)
{
    for (;;) {
        pthread_mutex_lock(&registry->lock);
        srv_model_change *change = take_left(registry);
        pthread_mutex_unlock(&registry->lock);
        if (!change)
            return;
        if (change->unloaded)
            srv_log_event(registry->log, SRV_LOG_INFO, "model unloaded",
                          (srv_log_field[]){srv_log_string("model", change->name)}, 1);
        change->finished(change);
    }
}

/* Lock held. */
static srv_model *detach(srv_registry *registry, srv_model_change *change)
{
    srv_model_entry *entry = srv_registry_find(registry, change->name);
    change->unknown = change->unknown && !entry;
    srv_model *model = entry ? srv_registry_detach(entry, SRV_MODEL_UNLOADED) : NULL;
    change->unloaded |= model != NULL;
    return model;
}

/* The turn of an unload. What an earlier turn loaded since it was asked for goes too. */
static void done_unload(srv_job *job)
{
    srv_model_change *change = of_job(job);
    srv_registry *registry = change->registry;
    char path[SRV_MODEL_PATH_BYTES];
    uint64_t stamp;
    srv_registry_path(registry, change->name, path);
    bool has_folder = srv_model_folder_stamp(path, &stamp);
    pthread_mutex_lock(&registry->lock);
    srv_model *model = detach(registry, change);
    srv_model_entry *entry = srv_registry_find(registry, change->name);
    if (entry && !has_folder)
        srv_registry_remove(registry, entry);
    srv_model_change *next = srv_registry_dequeue(registry);
    change->newest = registry->serial;
    change->next = registry->leaving;
    registry->leaving = change; /* from here on it may end on another thread */
    pthread_mutex_unlock(&registry->lock);
    srv_registry_go_on(registry, next);
    srv_model_release(model);
    srv_registry_tell_unloads(registry);
}

/* --------------------------------------------------------------------------------------------- */

void srv_registry_change(srv_registry *registry, srv_model_change *change)
{
    srv_model *model = NULL;
    if (change->action == SRV_MODEL_LOAD) {
        change->job = (srv_job){.next = next_load, .run = run_load, .done = done_load};
    } else {
        change->job = (srv_job){.next = next_unload, .done = done_unload};
        change->unknown = true;
        pthread_mutex_lock(&registry->lock);
        model = detach(registry, change);
        pthread_mutex_unlock(&registry->lock);
    }
    srv_registry_queue(registry, change);
    srv_model_release(model);
}
