/* The folders again: one job that looks at all of them, then loads one a tile, so that it can stop
 * between two. */
#include "server/clock.h"
#include "server/models/registry_state.h"
#include "server/text.h"

static srv_rescan *of_job(srv_job *job)
{
    return (srv_rescan *)(void *)job;
}

/* Lock held: an entry whose folder is gone; NULL when none is. */
static srv_model_entry *find_gone(const srv_registry *registry, const srv_model_names *names)
{
    srv_model_entry *entry = registry->entries;
    while (entry && srv_model_names_hold(names, entry->name))
        entry = entry->next;
    return entry;
}

static void drop_gone(srv_registry *registry, const srv_model_names *names)
{
    for (;;) {
        pthread_mutex_lock(&registry->lock);
        srv_model_entry *entry = find_gone(registry, names);
        srv_model *model = entry ? srv_registry_detach(entry, "") : NULL;
        if (entry)
            srv_registry_remove(registry, entry);
        pthread_mutex_unlock(&registry->lock);
        if (!entry)
            return;
        if (model)
            srv_log_event(registry->log, SRV_LOG_INFO, "model unloaded: its folder is gone",
                          (srv_log_field[]){srv_log_string("model", model->name)}, 1);
        srv_model_release(model);
    }
}

/* Everything that has a folder is listed, and what will be loaded is told apart from what is not
 * there. */
static void list_all(srv_registry *registry, const srv_model_names *names)
{
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < names->count; i++) {
        srv_model_entry *entry = srv_registry_add(registry, names->list[i]);
        if (entry)
            entry->loading = !entry->current && !registry->is_explicit;
    }
    pthread_mutex_unlock(&registry->lock);
}

static bool scan(srv_rescan *rescan)
{
    srv_registry *registry = rescan->change.registry;
    attn_error error = {0};
    rescan->began_ns = srv_now_ns();
    if (srv_model_names_read(&rescan->names, registry->folder, registry->log, &error) != ATTN_OK) {
        srv_log_event(registry->log, SRV_LOG_ERROR, "models left as they are",
                      (srv_log_field[]){srv_log_string("error", error.message)}, 1);
        return false;
    }
    rescan->scanned = true;
    drop_gone(registry, &rescan->names);
    list_all(registry, &rescan->names);
    return true;
}

/* Whether what is loaded of that name is not what the folder holds. */
static bool is_behind(srv_registry *registry, const char *name)
{
    char path[SRV_MODEL_PATH_BYTES];
    uint64_t stamp = 0;
    srv_registry_path(registry, name, path);
    bool there = srv_model_folder_stamp(path, &stamp);
    pthread_mutex_lock(&registry->lock);
    const srv_model_entry *entry = srv_registry_find(registry, name);
    const srv_model *current = entry ? entry->current : NULL;
    bool behind = current ? there && stamp != current->stamp : !registry->is_explicit;
    behind = behind && !registry->stopped;
    pthread_mutex_unlock(&registry->lock);
    return behind;
}

static bool next(srv_job *job, attn_phase *phase)
{
    srv_rescan *rescan = of_job(job);
    if (!rescan->scanned && !scan(rescan))
        return false;
    while (rescan->at < rescan->names.count) {
        if (is_behind(rescan->change.registry, rescan->names.list[rescan->at++])) {
            *phase = (attn_phase){"load", 1, SRV_LOAD_NS};
            return true;
        }
    }
    return false;
}

static attn_status run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    srv_rescan *rescan = of_job(job);
    attn_error error = {0};
    bool unknown;
    (void)tile;
    (void)scratch;
    attn_status status = srv_registry_load(rescan->change.registry,
                                           rescan->names.list[rescan->at - 1], &unknown, &error);
    rescan->loaded += status == ATTN_OK;
    rescan->failed += status != ATTN_OK;
    return ATTN_OK;
}

/* Lock held. */
static void reset(srv_rescan *rescan)
{
    srv_model_names_free(&rescan->names);
    rescan->scanned = rescan->wanted = false;
    rescan->at = 0;
    rescan->loaded = rescan->failed = 0;
}

static void log_outcome(const srv_rescan *rescan)
{
    const srv_log_field fields[] = {
        srv_log_int("folders", (int64_t)rescan->names.count),
        srv_log_int("loaded", rescan->loaded),
        srv_log_int("failed", rescan->failed),
        srv_log_real("total_ms", srv_round_ms((double)(srv_now_ns() - rescan->began_ns) * 1e-6)),
    };
    if (rescan->scanned)
        srv_log_event(rescan->change.registry->log, SRV_LOG_INFO, "models scanned", fields,
                      sizeof fields / sizeof *fields);
}

static void done(srv_job *job)
{
    srv_rescan *rescan = of_job(job);
    srv_registry *registry = rescan->change.registry;
    log_outcome(rescan);
    pthread_mutex_lock(&registry->lock);
    bool again = rescan->queued = rescan->wanted && !registry->stopped;
    reset(rescan);
    registry->settled = true;
    srv_model_change *following = srv_registry_dequeue(registry);
    pthread_mutex_unlock(&registry->lock);
    srv_registry_go_on(registry, following);
    if (again)
        srv_registry_queue(registry, &rescan->change);
}

void srv_registry_rescan(srv_registry *registry)
{
    srv_rescan *rescan = &registry->rescan;
    if (!registry->folder[0]) {
        srv_log_event(registry->log, SRV_LOG_INFO, "no models to look for: model_dir is not set",
                      NULL, 0);
        return;
    }
    pthread_mutex_lock(&registry->lock);
    bool queued = rescan->queued;
    rescan->queued = true;
    rescan->wanted = rescan->wanted || queued;
    pthread_mutex_unlock(&registry->lock);
    if (queued)
        return;
    rescan->change.job = (srv_job){.next = next, .run = run, .done = done};
    srv_registry_queue(registry, &rescan->change);
}
