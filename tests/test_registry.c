/* The registry of models, on a stand-in for their weights: what a name stands for while threads use
 * it, and that nothing is closed too early or kept too long. */
#include "server/models/registry.h"

#include "server/endpoints/endpoints.h"
#include "server/models/folder.h"
#include "server/request.h"
#include "tests/inline/model.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    USERS = 8,
    RELOADS = 100,
    CYCLES = 200,
    WARM_CYCLES = 40,
    PATH_BYTES = 512
};

/* A folder of models, and the parts of a daemon that the registry needs. */
typedef struct bench {
    char folder[64];
    int log_fd;
    srv_log log;
    srv_executor *executor;
    srv_registry *registry;
} bench;

static void require(bool ok, const char *what)
{
    CHECK(ok, "%s", what);
    if (!ok)
        exit(EXIT_FAILURE);
}

static const char *path_of(const bench *b, const char *relative)
{
    static _Thread_local char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%.400s", b->folder, relative);
    return path;
}

/* Written beside the file and renamed over it, as the documentation asks. */
static void write_file(const bench *b, const char *relative, const char *text)
{
    char beside[PATH_BYTES];
    snprintf(beside, sizeof beside, "%s/.new", b->folder);
    FILE *file = fopen(beside, "w");
    require(file != NULL, "a file is written");
    fputs(text, file);
    fclose(file);
    require(rename(beside, path_of(b, relative)) == 0, "and renamed");
}

static void make_folder(const bench *b, const char *relative)
{
    require(mkdir(path_of(b, relative), 0700) == 0, relative);
}

static void write_model(const bench *b, const char *name, const char *config)
{
    char relative[PATH_BYTES];
    mkdir(path_of(b, name), 0700);
    snprintf(relative, sizeof relative, "%.200s/config.json", name);
    write_file(b, relative, config);
}

static void remove_all(const char *path)
{
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "rm -rf '%.400s'", path);
    CHECK(system(command) == 0, "%s", command);
}

static void prepare(bench *b)
{
    *b = (bench){.folder = "/tmp/attnd-registry-XXXXXX", .log_fd = memfd_create("log", 0)};
    require(mkdtemp(b->folder) && b->log_fd >= 0, "a folder to work in");
    srv_log_init(&b->log, b->log_fd, SRV_LOG_TEXT, SRV_LOG_INFO);
}

static void open_bench(bench *b, bool is_explicit, int workers)
{
    attn_error error = {0};
    b->executor = srv_executor_open(workers, &error);
    require(b->executor != NULL, error.message);
    b->registry = srv_registry_open(b->folder, is_explicit, b->executor, &b->log, &error);
    require(b->registry != NULL, error.message);
}

static void close_bench(bench *b)
{
    srv_registry_stop(b->registry);
    srv_executor_close(b->executor);
    srv_registry_close(b->registry);
    CHECK(stand_in_open_count() == 0, "%d models are still open", stand_in_open_count());
    close(b->log_fd);
    remove_all(b->folder);
}

static bool was_logged(const bench *b, const char *text)
{
    static char log[1 << 20];
    ssize_t length = pread(b->log_fd, log, sizeof log - 1, 0);
    log[length > 0 ? length : 0] = '\0';
    return strstr(log, text) != NULL;
}

/* --- changes, waited for --------------------------------------------------------------------- */

typedef struct waited {
    srv_model_change change; /* first */
    sem_t over;
} waited;

static void on_finished(srv_model_change *change)
{
    sem_post(&((waited *)(void *)change)->over);
}

static void ask(const bench *b, waited *w, srv_model_action action, const char *name)
{
    *w = (waited){.change = {.action = action, .finished = on_finished}};
    snprintf(w->change.name, sizeof w->change.name, "%s", name);
    sem_init(&w->over, 0, 0);
    srv_registry_change(b->registry, &w->change);
}

static attn_status await(waited *w)
{
    while (sem_wait(&w->over) != 0)
        ;
    sem_destroy(&w->over);
    return w->change.error.status;
}

static bool is_over(waited *w)
{
    int value;
    sem_getvalue(&w->over, &value);
    return value > 0;
}

static attn_status change(const bench *b, srv_model_action action, const char *name)
{
    waited w;
    ask(b, &w, action, name);
    return await(&w);
}

/* A change that follows the rescan ends after it. */
static void rescan(const bench *b)
{
    srv_registry_rescan(b->registry);
    change(b, SRV_MODEL_UNLOAD, "no-such-model");
}

/* --- looking --------------------------------------------------------------------------------- */

/* What the name stands for: a generation, -1 torn, -2 not found, -3 being loaded. */
static int generation_of(const bench *b, const char *name)
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

static void check_generation(const bench *b, const char *name, int expected)
{
    int found = generation_of(b, name);
    CHECK(found == expected, "%s is %d, expected %d", name, found, expected);
}

static void print_status(void *context, const srv_model_status *status)
{
    char *text = context;
    CHECK((status->state == SRV_MODEL_READY) == (status->info != NULL), "%s", status->name);
    sprintf(text + strlen(text), "%s %s%s%.24s|", status->name, srv_model_state_name(status->state),
            status->reason[0] ? " " : "", status->reason);
}

static void check_list(const bench *b, const char *expected)
{
    char text[4096] = "";
    srv_registry_visit(b->registry, NULL, print_status, text);
    CHECK(strcmp(text, expected) == 0, "%s\nexpected %s", text, expected);
}

/* --- folders --------------------------------------------------------------------------------- */

static void names_are_checked(void)
{
    char longest[SRV_MODEL_NAME_BYTES + 1];
    memset(longest, 'a', sizeof longest);
    longest[SRV_MODEL_NAME_BYTES] = '\0';
    CHECK(!srv_model_name_is_valid(longest), "129 characters");
    longest[SRV_MODEL_NAME_BYTES - 1] = '\0';
    CHECK(srv_model_name_is_valid(longest), "128 characters");
    const char *const good[] = {"a", "Demo-1.5_x", "-", "_", "0.", "a..b"};
    const char *const bad[] = {"", ".", "..", ".a", "a/b", "a b", "a\n", "\xc3\xa4", "a\\", "a%2f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(srv_model_name_is_valid(good[i]), "\"%s\"", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!srv_model_name_is_valid(bad[i]), "\"%s\"", bad[i]);
}

static void folders_are_listed(void)
{
    bench b;
    prepare(&b);
    const char *const folders[] = {"b", "a", "c", ".hidden", "with space", "Z"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(&b, folders[i]);
    write_file(&b, "README", "");
    CHECK(symlink("a", path_of(&b, "link")) == 0, "a link");
    CHECK(symlink("nowhere", path_of(&b, "dangling")) == 0, "a link to nothing");
    srv_model_names names;
    attn_error error = {0};
    attn_status status = srv_model_names_read(&names, b.folder, &b.log, &error);
    CHECK(status == ATTN_OK, "%s", error.message);
    const char *const expected[] = {"Z", "a", "b", "c", "link"};
    CHECK(names.count == 5, "%zu names", names.count);
    for (size_t i = 0; i < names.count && i < 5; i++)
        CHECK(strcmp(names.list[i], expected[i]) == 0, "%s, expected %s", names.list[i],
              expected[i]);
    CHECK(srv_model_names_hold(&names, "link") && !srv_model_names_hold(&names, "dangling"),
          "what is held");
    CHECK(was_logged(&b, "with space") && !was_logged(&b, "hidden"), "the warning");
    srv_model_names_free(&names);
    CHECK(srv_model_names_read(&names, path_of(&b, "gone"), &b.log, &error) == ATTN_INVALID &&
              strstr(error.message, "gone"),
          "%s", error.message);
    srv_model_names_free(&names);
    close(b.log_fd);
    remove_all(b.folder);
}

static uint64_t stamp_of(const bench *b, const char *name)
{
    uint64_t stamp = 0;
    CHECK(srv_model_folder_stamp(path_of(b, name), &stamp), "%s", name);
    return stamp;
}

static void stamps_follow_the_files(void)
{
    bench b;
    uint64_t stamp = 0;
    prepare(&b);
    CHECK(!srv_model_folder_stamp(path_of(&b, "m"), &stamp), "no folder, no stamp");
    write_model(&b, "m", "1");
    CHECK(!srv_model_folder_stamp(path_of(&b, "m/config.json"), &stamp), "a file is no folder");
    uint64_t before = stamp_of(&b, "m");
    CHECK(stamp_of(&b, "m") == before, "nothing changed");
    write_file(&b, "m/README.md", "for people");
    CHECK(stamp_of(&b, "m") == before, "a file that is not read");
    static const char *const files[] = {"m/config.json", "m/model.safetensors",
                                        "m/adapters/x/adapter_model.safetensors"};
    make_folder(&b, "m/adapters");
    make_folder(&b, "m/adapters/x");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(&b, files[i], "1"); /* the same bytes, another file */
        CHECK(stamp_of(&b, "m") != before, "%s was replaced", files[i]);
        before = stamp_of(&b, "m");
    }
    const struct timespec times[] = {{1, 0}, {1, 5}};
    CHECK(utimensat(AT_FDCWD, path_of(&b, "m/config.json"), times, 0) == 0, "a time");
    CHECK(stamp_of(&b, "m") != before, "a nanosecond is a change");
    before = stamp_of(&b, "m");
    CHECK(unlink(path_of(&b, files[2])) == 0 && stamp_of(&b, "m") != before, "an adapter is gone");
    close(b.log_fd);
    remove_all(b.folder);
}

/* --- names ----------------------------------------------------------------------------------- */

static void a_start_loads_what_it_can(void)
{
    bench b;
    prepare(&b);
    write_model(&b, "two", "2");
    write_model(&b, "broken", "?");
    write_model(&b, "one", "1");
    open_bench(&b, false, 2);
    CHECK(!srv_registry_is_settled(b.registry), "nothing is loaded yet");
    rescan(&b);
    CHECK(srv_registry_is_settled(b.registry), "a model that failed does not keep it unsettled");
    check_generation(&b, "one", 1);
    check_generation(&b, "two", 2);
    check_generation(&b, "broken", -2);
    check_generation(&b, "other", -2);
    check_generation(&b, "../one", -2);
    char status[512] = "";
    CHECK(srv_registry_visit(b.registry, "two", print_status, status) == 1, "one visit");
    CHECK(strcmp(status, "two READY|") == 0, "%s", status);
    CHECK(srv_registry_visit(b.registry, "tw", print_status, status) == 0, "no visit");
    char expected[256];
    snprintf(expected, sizeof expected, "broken UNAVAILABLE %.24s|one READY|two READY|", b.folder);
    check_list(&b, expected);
    CHECK(was_logged(&b, "model not loaded"), "the failure is logged");
    close_bench(&b);
}

static int asked_whether_ready(const bench *b)
{
    srv_server server = {.registry = b->registry};
    srv_request request = {.server = &server};
    srv_endpoint_ready(&request);
    int status = request.answer.status;
    srv_answer_free(&request.answer);
    return status;
}

static void readiness_waits_for_the_start(void)
{
    bench b;
    sem_t entered, gate;
    prepare(&b);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    write_model(&b, "bad", "?");
    write_model(&b, "good", "1");
    open_bench(&b, false, 2);
    CHECK(asked_whether_ready(&b) == 503, "before the first load");
    stand_in_hold(&entered, &gate);
    srv_registry_rescan(b.registry);
    sem_wait(&entered);
    check_list(&b, "bad LOADING not loaded|good LOADING not loaded|");
    check_generation(&b, "good", -3);
    CHECK(asked_whether_ready(&b) == 503, "during the first load");
    sem_post(&gate);
    sem_wait(&entered);
    CHECK(asked_whether_ready(&b) == 503, "between two loads");
    stand_in_hold(NULL, NULL);
    sem_post(&gate);
    rescan(&b);
    CHECK(asked_whether_ready(&b) == 200, "after all of them");
    close_bench(&b);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

static void nothing_is_no_models(void)
{
    bench b;
    attn_error error = {0};
    srv_problem problem;
    prepare(&b);
    CHECK(!srv_registry_open(path_of(&b, "gone"), false, NULL, &b.log, &error), "no folder");
    CHECK(error.status == ATTN_INVALID && strstr(error.message, "gone"), "%s", error.message);
    CHECK(!srv_registry_acquire(NULL, "m", &problem) && problem.id == SRV_PROBLEM_NOT_FOUND,
          "no registry");
    CHECK(srv_registry_visit(NULL, NULL, print_status, NULL) == 0 && srv_registry_is_settled(NULL),
          "no registry");
    b.registry = srv_registry_open("", false, NULL, &b.log, &error);
    require(b.registry != NULL, error.message);
    CHECK(srv_registry_is_settled(b.registry), "there is nothing to load");
    srv_registry_rescan(b.registry);
    check_generation(&b, "m", -2);
    close_bench(&b);
}

static void loading_can_be_explicit(void)
{
    bench b;
    prepare(&b);
    write_model(&b, "m", "1");
    open_bench(&b, true, 1);
    rescan(&b);
    check_list(&b, "m UNAVAILABLE not loaded|");
    check_generation(&b, "m", -2);
    CHECK(change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "load");
    check_generation(&b, "m", 1);
    write_model(&b, "m", "2");
    check_generation(&b, "m", 1);
    CHECK(change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "load again");
    check_generation(&b, "m", 2);
    CHECK(change(&b, SRV_MODEL_UNLOAD, "m") == ATTN_OK, "unload");
    CHECK(stand_in_open_count() == 0, "unloaded is closed: %d open", stand_in_open_count());
    check_list(&b, "m UNAVAILABLE unloaded|");
    rescan(&b);
    check_list(&b, "m UNAVAILABLE unloaded|");
    close_bench(&b);
}

static void unknown_names_are_told(void)
{
    bench b;
    waited w;
    prepare(&b);
    open_bench(&b, true, 1);
    ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(await(&w) == ATTN_INVALID && w.change.unknown, "%s", w.change.error.message);
    ask(&b, &w, SRV_MODEL_UNLOAD, "m");
    CHECK(await(&w) == ATTN_OK && w.change.unknown, "an unload of nothing");
    check_list(&b, "");
    write_model(&b, "m", "1");
    ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(await(&w) == ATTN_OK && !w.change.unknown, "%s", w.change.error.message);
    remove_all(path_of(&b, "m"));
    ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(await(&w) == ATTN_INVALID && w.change.unknown, "its folder is gone");
    check_generation(&b, "m", 1);
    ask(&b, &w, SRV_MODEL_UNLOAD, "m");
    CHECK(await(&w) == ATTN_OK && !w.change.unknown, "an unload of what was there");
    check_list(&b, "");
    close_bench(&b);
}

static void a_failed_load_changes_nothing(void)
{
    bench b;
    waited w;
    prepare(&b);
    write_model(&b, "m", "1");
    open_bench(&b, true, 2);
    change(&b, SRV_MODEL_LOAD, "m");
    write_model(&b, "m", "?");
    ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(await(&w) == ATTN_INVALID && !w.change.unknown && w.change.error.message[0], "it fails");
    check_generation(&b, "m", 1);
    char expected[128];
    snprintf(expected, sizeof expected, "m READY %.24s|", b.folder);
    check_list(&b, expected);
    write_model(&b, "m", "3");
    CHECK(change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "mended");
    check_list(&b, "m READY|");
    check_generation(&b, "m", 3);
    close_bench(&b);
}

static void a_rescan_follows_the_folders(void)
{
    bench b;
    prepare(&b);
    write_model(&b, "changed", "1");
    write_model(&b, "gone", "1");
    write_model(&b, "same", "1");
    write_model(&b, "spoilt", "1");
    write_model(&b, "mended", "?");
    open_bench(&b, false, 2);
    rescan(&b);
    int tries = stand_in_tries();
    rescan(&b);
    CHECK(stand_in_tries() == tries + 1, "only what failed is tried again");
    write_model(&b, "changed", "2");
    write_model(&b, "fresh", "5");
    write_model(&b, "spoilt", "?");
    write_model(&b, "mended", "6");
    remove_all(path_of(&b, "gone"));
    rescan(&b);
    CHECK(stand_in_tries() == tries + 5, "%d tries", stand_in_tries() - tries);
    check_generation(&b, "changed", 2);
    check_generation(&b, "fresh", 5);
    check_generation(&b, "gone", -2);
    check_generation(&b, "mended", 6);
    check_generation(&b, "same", 1);
    check_generation(&b, "spoilt", 1);
    char moved[PATH_BYTES];
    snprintf(moved, sizeof moved, "%s-moved", b.folder);
    CHECK(rename(b.folder, moved) == 0, "the whole folder is away");
    rescan(&b);
    check_generation(&b, "same", 1);
    CHECK(was_logged(&b, "models left as they are"), "and that is logged");
    CHECK(rename(moved, b.folder) == 0, "and back");
    close_bench(&b);
}

/* --- time ------------------------------------------------------------------------------------ */

static void an_unload_waits_for_the_last_user(void)
{
    bench b;
    waited first, second, third;
    srv_problem problem;
    prepare(&b);
    write_model(&b, "m", "1");
    open_bench(&b, true, 1);
    change(&b, SRV_MODEL_LOAD, "m");
    srv_model *old = srv_registry_acquire(b.registry, "m", &problem);
    write_model(&b, "m", "2");
    change(&b, SRV_MODEL_LOAD, "m");
    srv_model *new = srv_registry_acquire(b.registry, "m", &problem);
    require(old && new, "both generations are in use");
    ask(&b, &first, SRV_MODEL_UNLOAD, "m");
    check_generation(&b, "m", -2);
    CHECK(change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "an unload holds up nobody, on one worker");
    check_generation(&b, "m", 2);
    ask(&b, &second, SRV_MODEL_LOAD, "m");
    ask(&b, &third, SRV_MODEL_UNLOAD, "m");
    CHECK(await(&second) == ATTN_OK, "changes keep their order");
    CHECK(!is_over(&first) && !is_over(&third), "old and new are in use");
    CHECK(stand_in_generation(srv_model_weights(old)) == 1, "the old weights are whole");
    srv_model_release(new);
    change(&b, SRV_MODEL_UNLOAD, "other");
    CHECK(!is_over(&first) && !is_over(&third), "the old are in use");
    srv_model_release(old);
    CHECK(await(&first) == ATTN_OK && await(&third) == ATTN_OK, "both unloads are over");
    CHECK(stand_in_open_count() == 0, "%d are open", stand_in_open_count());
    check_list(&b, "m UNAVAILABLE unloaded|");
    close_bench(&b);
}

static void a_first_load_is_waited_for(void)
{
    bench b;
    waited load, unload;
    sem_t entered, gate;
    prepare(&b);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    write_model(&b, "m", "1");
    open_bench(&b, true, 2);
    stand_in_hold(&entered, &gate);
    ask(&b, &load, SRV_MODEL_LOAD, "m");
    sem_wait(&entered);
    check_generation(&b, "m", -3);
    check_list(&b, "m LOADING not loaded|");
    ask(&b, &unload, SRV_MODEL_UNLOAD, "m");
    CHECK(!is_over(&unload), "its turn comes after the load's");
    sem_post(&gate);
    CHECK(await(&load) == ATTN_OK && await(&unload) == ATTN_OK, "one after the other");
    check_generation(&b, "m", -2);
    stand_in_hold(NULL, NULL);
    close_bench(&b);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

static void a_stop_begins_no_more_loads(void)
{
    bench b;
    waited running, waiting;
    sem_t entered, gate;
    prepare(&b);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    write_model(&b, "m", "1");
    write_model(&b, "n", "1");
    open_bench(&b, false, 2);
    stand_in_hold(&entered, &gate);
    ask(&b, &running, SRV_MODEL_LOAD, "m");
    sem_wait(&entered);
    ask(&b, &waiting, SRV_MODEL_LOAD, "n");
    srv_registry_rescan(b.registry);
    srv_registry_rescan(b.registry);
    srv_registry_stop(b.registry);
    int tries = stand_in_tries();
    stand_in_hold(NULL, NULL);
    sem_post(&gate);
    CHECK(await(&running) == ATTN_OK, "what had begun ends");
    CHECK(await(&waiting) == ATTN_CANCELLED, "what waited does not begin");
    close_bench(&b);
    CHECK(stand_in_tries() == tries, "%d more loads", stand_in_tries() - tries);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

/* --- many at once ---------------------------------------------------------------------------- */

typedef struct user {
    const bench *bench;
    atomic_bool *stop;
    long used, torn, fell; /* answers in all, from mixed weights, older than one seen before */
    pthread_t thread;
} user;

static void *use(void *argument)
{
    user *u = argument;
    int last = 0;
    while (!*u->stop) {
        int generation = generation_of(u->bench, "m");
        if (generation < -1) {
            sched_yield();
            continue;
        }
        u->used++;
        u->torn += generation < 0;
        u->fell += generation >= 0 && generation < last;
        last = generation;
    }
    return NULL;
}

static void reload_all(const bench *b, bool with_unloads)
{
    for (int i = 1; i <= RELOADS; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        write_model(b, "m", text);
        if (with_unloads && i % 3 == 0)
            CHECK(change(b, SRV_MODEL_UNLOAD, "m") == ATTN_OK, "unload %d", i);
        if (i % 2)
            CHECK(change(b, SRV_MODEL_LOAD, "m") == ATTN_OK, "load %d", i);
        else
            rescan(b);
    }
}

static void weights_are_wholly_old_or_new(void)
{
    for (int with_unloads = 0; with_unloads <= 1; with_unloads++) {
        bench b;
        atomic_bool stop = false;
        user users[USERS];
        prepare(&b);
        write_model(&b, "m", "0");
        open_bench(&b, false, 2);
        rescan(&b);
        for (int i = 0; i < USERS; i++) {
            users[i] = (user){.bench = &b, .stop = &stop};
            require(pthread_create(&users[i].thread, NULL, use, &users[i]) == 0, "a thread");
        }
        reload_all(&b, with_unloads);
        stop = true;
        long used = 0;
        for (int i = 0; i < USERS; i++) {
            pthread_join(users[i].thread, NULL);
            used += users[i].used;
            CHECK(users[i].torn == 0 && users[i].fell == 0,
                  "user %d of %ld: %ld mixed, %ld fell back (unloads: %d)", i, users[i].used,
                  users[i].torn, users[i].fell, with_unloads);
        }
        CHECK(used > 0, "somebody used it");
        check_generation(&b, "m", RELOADS);
        change(&b, SRV_MODEL_UNLOAD, "m");
        CHECK(stand_in_open_count() == 0, "old weights are kept: %d", stand_in_open_count());
        close_bench(&b);
    }
}

static void cycles_leave_memory_flat(void)
{
    bench b;
    prepare(&b);
    open_bench(&b, true, 1);
    size_t before = 0;
    for (int i = 0; i < CYCLES; i++) {
        char name[32];
        snprintf(name, sizeof name, "m%d", i);
        write_model(&b, name, "1");
        CHECK(change(&b, SRV_MODEL_LOAD, name) == ATTN_OK, "load %d", i);
        remove_all(path_of(&b, name));
        CHECK(change(&b, SRV_MODEL_UNLOAD, name) == ATTN_OK, "unload %d", i);
        CHECK(change(&b, SRV_MODEL_LOAD, "no-folder") == ATTN_INVALID, "no folder");
        if (i == WARM_CYCLES) /* by now the threads' caches, which count as used, are full */
            before = mallinfo2().uordblks; /* 0 beneath a sanitizer, as is what follows */
    }
    size_t after = mallinfo2().uordblks;
    CHECK(after < before + 1024, "%zu bytes after %d cycles, %zu after %d", before, WARM_CYCLES,
          after, CYCLES);
    check_list(&b, "");
    close_bench(&b);
}

int main(void)
{
    return test_main("registry",
                     (const test_case[]){
                         {"names are checked", names_are_checked},
                         {"folders are listed", folders_are_listed},
                         {"stamps follow the files", stamps_follow_the_files},
                         {"a start loads what it can", a_start_loads_what_it_can},
                         {"readiness waits for the start", readiness_waits_for_the_start},
                         {"nothing is no models", nothing_is_no_models},
                         {"loading can be explicit", loading_can_be_explicit},
                         {"unknown names are told", unknown_names_are_told},
                         {"a failed load changes nothing", a_failed_load_changes_nothing},
                         {"a rescan follows the folders", a_rescan_follows_the_folders},
                         {"an unload waits for the last user", an_unload_waits_for_the_last_user},
                         {"a first load is waited for", a_first_load_is_waited_for},
                         {"a stop begins no more loads", a_stop_begins_no_more_loads},
                         {"weights are wholly old or new", weights_are_wholly_old_or_new},
                         {"cycles leave memory flat", cycles_leave_memory_flat},
                         {NULL, NULL},
                     });
}
