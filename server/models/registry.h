/* The models that the daemon holds, by name: loaded, replaced and unloaded while requests use them.
 *
 * A model in use is a reference that keeps its weights where they are, whatever happens to the name
 * meanwhile: loading a name again puts the new weights beside the old and then swaps, so a request
 * sees wholly the ones or wholly the others, and a load that fails changes nothing. The last
 * reference to weights that a name no longer stands for has them closed by a job of their own,
 * since giving gigabytes back takes a while: whoever releases never waits.
 *
 * Changes (srv_model_change) are jobs of the executor that follow one another in the order in which
 * they were asked for. So a name's state is never a race, and reading weights holds up one worker
 * at most. */
#ifndef SERVER_MODELS_REGISTRY_H
#define SERVER_MODELS_REGISTRY_H

#include "attn/model.h"
#include "server/executor.h"
#include "server/log.h"
#include "server/problem.h"

enum {
    SRV_MODEL_NAME_BYTES = 129 /* with its NUL */
};

typedef struct srv_registry srv_registry;

/* A reference to a loaded model. */
typedef struct srv_model srv_model;

/* Whether a folder of that name can be a model: 1 to 128 of A-Za-z0-9._-, not starting with a dot.
 */
bool srv_model_name_is_valid(const char *name);

/* --- using models: any thread ---------------------------------------------------------------- */

/* The model of that name, to be released. NULL and a refusal: 404 when there is none that is
 * loaded, 503 while it is being loaded for the first time. A NULL registry holds no models. */
srv_model *srv_registry_acquire(srv_registry *registry, const char *name, srv_problem *problem);

/* What may be planned and run until the release. */
const attn_model *srv_model_weights(const srv_model *model);

/* Give a reference back; returns at once. After the last program made from it is closed. NULL is
 * fine. */
void srv_model_release(srv_model *model);

/* --- looking at them: any thread ------------------------------------------------------------- */

typedef enum srv_model_state {
    SRV_MODEL_UNAVAILABLE,
    SRV_MODEL_LOADING, /* and nothing is loaded yet: a reload stays READY */
    SRV_MODEL_READY,
} srv_model_state;

/* "UNAVAILABLE", "LOADING", "READY". */
const char *srv_model_state_name(srv_model_state state);

/* Valid during the visit. */
typedef struct srv_model_status {
    const char *name;
    srv_model_state state;
    const char *reason;          /* why not READY, or why the last reload failed; or "" */
    const attn_model_info *info; /* NULL unless READY */
} srv_model_status;

typedef void srv_model_visit(void *context, const srv_model_status *status);

/* Visit the model of that name, or with `name` NULL all of them in the order of their names; how
 * many were visited. The visit happens under the registry's lock and must not call it. */
int srv_registry_visit(srv_registry *registry, const char *name, srv_model_visit *visit,
                       void *context);

/* False until the loading that the start asked for is over. */
bool srv_registry_is_settled(srv_registry *registry);

/* --- changing them --------------------------------------------------------------------------- */

typedef enum srv_model_action {
    SRV_MODEL_LOAD,   /* the folder of that name, beside what is loaded; over when it serves */
    SRV_MODEL_UNLOAD, /* over when nobody uses any weights of that name */
} srv_model_action;

typedef struct srv_model_change srv_model_change;

/* Filled by the owner up to `finished`, zero behind it. */
struct srv_model_change {
    srv_job job; /* first: the executor hands it back. Only the registry fills it; cancelling it
                    may spare a load that has not begun, and nothing else */
    srv_model_action action;
    char name[SRV_MODEL_NAME_BYTES]; /* valid */
    /* The change is over, on some worker: the owner may free it. */
    void (*finished)(srv_model_change *change);

    bool unknown;     /* there is no such folder, or nothing of that name was loaded */
    attn_error error; /* status ATTN_OK: done; else why not */

    srv_registry *registry; /* from here on the registry's own */
    srv_model_change *next;
    bool unloaded;   /* something was */
    uint64_t newest; /* an unload waits for all weights of its name up to this serial */
};

/* Ask for a change. An unload takes what is loaded away from the name before this returns; what an
 * earlier change is still to load goes when its turn comes. Any thread. */
void srv_registry_change(srv_registry *registry, srv_model_change *change);

/* Bring what is loaded in line with the folders: load new ones (unless loading is explicit), load
 * again those whose files changed, unload those that are gone. Any thread; returns at once. */
void srv_registry_rescan(srv_registry *registry);

/* --- the daemon's start and end -------------------------------------------------------------- */

/* Models are the folders below `folder`; "" for none, ever. With `is_explicit` nothing is loaded
 * unless asked for. Loads nothing yet: srv_registry_rescan does. NULL: ATTN_INVALID when `folder`
 * cannot be read, or ATTN_NO_MEMORY. Executor and log stay borrowed. */
srv_registry *srv_registry_open(const char *folder, bool is_explicit, srv_executor *executor,
                                srv_log *log, attn_error *error);

/* Begin no more loads: those that wait end with ATTN_CANCELLED. Any thread. */
void srv_registry_stop(srv_registry *registry);

/* Close every model. After srv_executor_close; no reference is left. NULL is fine. */
void srv_registry_close(srv_registry *registry);

#endif
