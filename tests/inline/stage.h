/* What a registry of models stands on, small: a folder of stand-ins (model.h), a log, an executor.
 * What cannot be set up ends the program. */
#ifndef TESTS_INLINE_STAGE_H
#define TESTS_INLINE_STAGE_H

#include "server/models/registry.h"

#include <semaphore.h>

enum {
    STAGE_PATH_BYTES = 512
};

typedef struct stage {
    char folder[64];
    int log_fd;
    srv_log log;
    srv_executor *executor;
    srv_registry *registry;
} stage;

/* A folder and a log; then an executor and a registry over them. Closing counts what is open. */
void stage_prepare(stage *b);
void stage_open(stage *b, bool is_explicit, int workers);
void stage_close(stage *b);

void stage_require(bool ok, const char *what);

/* The path of a name in the folder, in storage that the thread's next call overwrites. */
const char *stage_path(const stage *b, const char *relative);

/* A file, written beside and renamed over it as the documentation asks; a folder; a folder with a
 * config.json. */
void stage_file(const stage *b, const char *relative, const char *text);
void stage_folder(const stage *b, const char *relative);
void stage_model(const stage *b, const char *name, const char *config);

/* Whatever is at the path, and below. */
void stage_remove(const char *path);

bool stage_logged(const stage *b, const char *text);

/* A change to be waited for. */
typedef struct stage_waited {
    srv_model_change change; /* first */
    sem_t over;
} stage_waited;

void stage_ask(const stage *b, stage_waited *w, srv_model_action action, const char *name);
attn_status stage_await(stage_waited *w);
bool stage_is_over(stage_waited *w);

/* Both at once. */
attn_status stage_change(const stage *b, srv_model_action action, const char *name);

/* Returns after it is over. */
void stage_rescan(const stage *b);

/* What the name stands for: a generation, -1 torn, -2 not found, -3 being loaded. */
int stage_generation(const stage *b, const char *name);
void stage_check_generation(const stage *b, const char *name, int expected);

/* A srv_model_visit that appends a name, its state and reason, and a bar to the text. */
void stage_print_status(void *context, const srv_model_status *status);

/* Every name with its state and reason. */
void stage_check_list(const stage *b, const char *expected);

#endif
