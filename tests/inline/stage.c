/* Changes asked for here are waited for on a semaphore that their end posts. */
#include "tests/inline/stage.h"

#include "tests/inline/model.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void stage_require(bool ok, const char *what)
{
    CHECK(ok, "%s", what);
    if (!ok)
        exit(EXIT_FAILURE);
}

const char *stage_path(const stage *b, const char *relative)
{
    static _Thread_local char path[STAGE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%.400s", b->folder, relative);
    return path;
}

/* Written beside the file and renamed over it, as the documentation asks. */
void stage_file(const stage *b, const char *relative, const char *text)
{
    char beside[STAGE_PATH_BYTES];
    snprintf(beside, sizeof beside, "%s/.new", b->folder);
    FILE *file = fopen(beside, "w");
    stage_require(file != NULL, "a file is written");
    fputs(text, file);
    fclose(file);
    stage_require(rename(beside, stage_path(b, relative)) == 0, "and renamed");
}

void stage_folder(const stage *b, const char *relative)
{
    stage_require(mkdir(stage_path(b, relative), 0700) == 0, relative);
}

void stage_model(const stage *b, const char *name, const char *config)
{
    char relative[STAGE_PATH_BYTES];
    mkdir(stage_path(b, name), 0700);
    snprintf(relative, sizeof relative, "%.200s/config.json", name);
    stage_file(b, relative, config);
}

void stage_remove(const char *path)
{
    char command[STAGE_PATH_BYTES];
    snprintf(command, sizeof command, "rm -rf '%.400s'", path);
    CHECK(system(command) == 0, "%s", command);
}

void stage_prepare(stage *b)
{
    *b = (stage){.folder = "/tmp/attnd-registry-XXXXXX", .log_fd = memfd_create("log", 0)};
    stage_require(mkdtemp(b->folder) && b->log_fd >= 0, "a folder to work in");
    srv_log_init(&b->log, b->log_fd, SRV_LOG_TEXT, SRV_LOG_INFO);
}

void stage_open(stage *b, bool is_explicit, int workers)
{
    attn_error error = {0};
    b->executor = srv_executor_open(workers, &error);
    stage_require(b->executor != NULL, error.message);
    b->registry = srv_registry_open(b->folder, is_explicit, b->executor, &b->log, &error);
    stage_require(b->registry != NULL, error.message);
}

void stage_close(stage *b)
{
    srv_registry_stop(b->registry);
    srv_executor_close(b->executor);
    srv_registry_close(b->registry);
    CHECK(stand_in_open_count() == 0, "%d models are still open", stand_in_open_count());
    close(b->log_fd);
    stage_remove(b->folder);
}

bool stage_logged(const stage *b, const char *text)
{
    static char log[1 << 20];
    ssize_t length = pread(b->log_fd, log, sizeof log - 1, 0);
    log[length > 0 ? length : 0] = '\0';
    return strstr(log, text) != NULL;
}

/* --- changes, stage_waited for
 * --------------------------------------------------------------------- */

static void on_finished(srv_model_change *change)
{
    sem_post(&((stage_waited *)(void *)change)->over);
}

void stage_ask(const stage *b, stage_waited *w, srv_model_action action, const char *name)
{
    *w = (stage_waited){.change = {.action = action, .finished = on_finished}};
    snprintf(w->change.name, sizeof w->change.name, "%s", name);
    sem_init(&w->over, 0, 0);
    srv_registry_change(b->registry, &w->change);
}

attn_status stage_await(stage_waited *w)
{
    while (sem_wait(&w->over) != 0)
        ;
    sem_destroy(&w->over);
    return w->change.error.status;
}

bool stage_is_over(stage_waited *w)
{
    int value;
    sem_getvalue(&w->over, &value);
    return value > 0;
}

attn_status stage_change(const stage *b, srv_model_action action, const char *name)
{
    stage_waited w;
    stage_ask(b, &w, action, name);
    return stage_await(&w);
}

/* A change that follows the rescan ends after it. */
void stage_rescan(const stage *b)
{
    srv_registry_rescan(b->registry);
    stage_change(b, SRV_MODEL_UNLOAD, "no-such-model");
}

/* --- looking --------------------------------------------------------------------------------- */

/* What the name stands for: a generation, -1 torn, -2 not found, -3 being loaded. */
int stage_generation(const stage *b, const char *name)
{
    srv_problem problem = {0};
    srv_model *model = srv_registry_acquire(b->registry, name, &problem);
    if (!model)
        return problem.id == SRV_PROBLEM_NOT_FOUND ? -2
               : problem.id == SRV_PROBLEM_LOADING ? -3
                                                   : -4;
    int generation = stand_in_generation(srv_model_weights(model));
    srv_model_release(model);
    return generation;
}

void stage_check_generation(const stage *b, const char *name, int expected)
{
    int found = stage_generation(b, name);
    CHECK(found == expected, "%s is %d, expected %d", name, found, expected);
}

void stage_print_status(void *context, const srv_model_status *status)
{
    char *text = context;
    CHECK((status->state == SRV_MODEL_READY) == (status->info != NULL), "%s", status->name);
    sprintf(text + strlen(text), "%s %s%s%.24s|", status->name, srv_model_state_name(status->state),
            status->reason[0] ? " " : "", status->reason);
}

void stage_check_list(const stage *b, const char *expected)
{
    char text[4096] = "";
    srv_registry_visit(b->registry, NULL, stage_print_status, text);
    CHECK(strcmp(text, expected) == 0, "%s\nexpected %s", text, expected);
}
