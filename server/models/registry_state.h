/* How the registry keeps models; shared by the files of this folder alone.
 *
 * The lock guards everything but what is constant. It is never held while weights are read or given
 * back, nor while a job is submitted. Only a change whose turn it is adds or removes entries, so
 * that an entry stays where it is for the time of a turn. */
#ifndef SERVER_MODELS_REGISTRY_STATE_H
#define SERVER_MODELS_REGISTRY_STATE_H

#include "server/models/folder.h"
#include "server/models/registry.h"

#include <pthread.h>

enum {
    SRV_MODEL_PATH_BYTES = 512 /* folder/name with its NUL */
};

/* Predicted time of a load, for the executor's order and for admission: little, because a load
 * begins without waiting behind long requests, and no client is to be refused on its account. */
#define SRV_LOAD_NS 1e6

struct srv_model {
    srv_job closing; /* first: what gives the weights back */
    srv_registry *registry;
    srv_model *next; /* of all that are not closed */
    attn_model *weights;
    char name[SRV_MODEL_NAME_BYTES];
    uint64_t serial; /* the order of loading */
    uint64_t stamp;  /* of the files, when loading began */
    int64_t references;
};

/* Reasons of an entry that nobody asked for, or that somebody asked to leave. */
#define SRV_MODEL_NOT_LOADED "not loaded"
#define SRV_MODEL_UNLOADED   "unloaded"

/* A name, and what it stands for. */
typedef struct srv_model_entry srv_model_entry;
struct srv_model_entry {
    srv_model_entry *next; /* in the order of the names */
    char name[SRV_MODEL_NAME_BYTES];
    srv_model *current; /* one of its references is the entry's; NULL: nothing is loaded */
    bool loading;       /* or is about to be loaded */
    char reason[sizeof((attn_error *)0)->message];
};

/* Bringing everything in line with the folders: a load a tile. */
typedef struct srv_rescan {
    srv_model_change change; /* first: its turn; only job, registry and next are used */
    bool wanted;             /* asked for again since its turn began */
    bool queued;             /* waits for its turn, or has it */
    bool scanned;            /* in this turn */
    srv_model_names names;
    size_t at; /* the next name to look at */
    int64_t began_ns;
    int64_t loaded, failed;
} srv_rescan;

struct srv_registry {
    char folder[SRV_MODEL_PATH_BYTES]; /* "": there are no models */
    bool is_explicit;
    srv_executor *executor;
    srv_log *log;

    pthread_mutex_t lock;
    srv_model_entry *entries;
    srv_model *models; /* all that are not closed, loaded or leaving */
    uint64_t serial;
    srv_model_change *first, *last; /* asked for; the executor has the first */
    srv_model_change *leaving;      /* unloads that wait for whoever uses the model */
    bool stopped;
    bool settled;
    srv_rescan rescan;
};

/* Lock held: the entry of that name, or NULL. */
srv_model_entry *srv_registry_find(const srv_registry *registry, const char *name);

/* Lock held, in a turn: the same, made when it is not there; NULL: no memory. */
srv_model_entry *srv_registry_add(srv_registry *registry, const char *name);

/* Lock held: let nobody acquire the model any more. What the caller then releases, or NULL. */
srv_model *srv_registry_detach(srv_model_entry *entry, const char *reason);

/* Lock held, in a turn: forget an entry that stands for nothing. */
void srv_registry_remove(srv_registry *registry, srv_model_entry *entry);

/* In a turn: read the folder of that name, and swap. ATTN_OK, or *error says why nothing changed;
 * *unknown: because there is no such folder. Logs how it went. */
attn_status srv_registry_load(srv_registry *registry, const char *name, bool *unknown,
                              attn_error *error);

/* The path of a model's folder. */
void srv_registry_path(const srv_registry *registry, const char *name,
                       char path[SRV_MODEL_PATH_BYTES]);

/* Append to those that wait for their turn. */
void srv_registry_queue(srv_registry *registry, srv_model_change *change);

/* Lock held: the first has had its turn; the next, to be submitted, or NULL. */
srv_model_change *srv_registry_dequeue(srv_registry *registry);

/* Submit what srv_registry_dequeue returned. */
void srv_registry_go_on(srv_registry *registry, srv_model_change *next);

/* Tell the unloads that nothing keeps waiting any more. */
void srv_registry_tell_unloads(srv_registry *registry);

#endif
