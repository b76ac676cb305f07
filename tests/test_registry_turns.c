/* The registry of models while threads use it: nothing is closed too early or kept too long. */
#include "server/models/registry.h"

#include "tests/inline/model.h"
#include "tests/inline/stage.h"
#include "tests/support/suite.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    USERS = 8,
    RELOADS = 100,
    CYCLES = 200,
    WARM_CYCLES = 40,
};

/* --- time ------------------------------------------------------------------------------------ */

static void an_unload_waits_for_the_last_user(void)
{
    stage b;
    stage_waited first, second, third;
    srv_problem problem;
    stage_prepare(&b);
    stage_model(&b, "m", "1");
    stage_open(&b, true, 1);
    stage_change(&b, SRV_MODEL_LOAD, "m");
    srv_model *old = srv_registry_acquire(b.registry, "m", &problem);
    stage_model(&b, "m", "2");
    stage_change(&b, SRV_MODEL_LOAD, "m");
    srv_model *new = srv_registry_acquire(b.registry, "m", &problem);
    stage_require(old && new, "both generations are in use");
    stage_ask(&b, &first, SRV_MODEL_UNLOAD, "m");
    stage_check_generation(&b, "m", -2);
    CHECK(stage_change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK,
          "an unload holds up nobody, on one worker");
    stage_check_generation(&b, "m", 2);
    stage_ask(&b, &second, SRV_MODEL_LOAD, "m");
    stage_ask(&b, &third, SRV_MODEL_UNLOAD, "m");
    CHECK(stage_await(&second) == ATTN_OK, "changes keep their order");
    CHECK(!stage_is_over(&first) && !stage_is_over(&third), "old and new are in use");
    CHECK(stand_in_generation(srv_model_weights(old)) == 1, "the old weights are whole");
    srv_model_release(new);
    stage_change(&b, SRV_MODEL_UNLOAD, "other");
    CHECK(!stage_is_over(&first) && !stage_is_over(&third), "the old are in use");
    srv_model_release(old);
    CHECK(stage_await(&first) == ATTN_OK && stage_await(&third) == ATTN_OK,
          "both unloads are over");
    CHECK(stand_in_open_count() == 0, "%d are open", stand_in_open_count());
    stage_check_list(&b, "m UNAVAILABLE unloaded|");
    stage_close(&b);
}

static void a_first_load_is_waited_for(void)
{
    stage b;
    stage_waited load, unload;
    sem_t entered, gate;
    stage_prepare(&b);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    stage_model(&b, "m", "1");
    stage_open(&b, true, 2);
    stand_in_hold(&entered, &gate);
    stage_ask(&b, &load, SRV_MODEL_LOAD, "m");
    sem_wait(&entered);
    stage_check_generation(&b, "m", -3);
    stage_check_list(&b, "m LOADING not loaded|");
    stage_ask(&b, &unload, SRV_MODEL_UNLOAD, "m");
    CHECK(!stage_is_over(&unload), "its turn comes after the load's");
    sem_post(&gate);
    CHECK(stage_await(&load) == ATTN_OK && stage_await(&unload) == ATTN_OK, "one after the other");
    stage_check_generation(&b, "m", -2);
    stand_in_hold(NULL, NULL);
    stage_close(&b);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

static void a_stop_begins_no_more_loads(void)
{
    stage b;
    stage_waited running, waiting;
    sem_t entered, gate;
    stage_prepare(&b);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    stage_model(&b, "m", "1");
    stage_model(&b, "n", "1");
    stage_open(&b, false, 2);
    stand_in_hold(&entered, &gate);
    stage_ask(&b, &running, SRV_MODEL_LOAD, "m");
    sem_wait(&entered);
    stage_ask(&b, &waiting, SRV_MODEL_LOAD, "n");
    srv_registry_rescan(b.registry);
    srv_registry_rescan(b.registry);
    srv_registry_stop(b.registry);
    int tries = stand_in_tries();
    stand_in_hold(NULL, NULL);
    sem_post(&gate);
    CHECK(stage_await(&running) == ATTN_OK, "what had begun ends");
    CHECK(stage_await(&waiting) == ATTN_CANCELLED, "what stage_waited does not begin");
    stage_close(&b);
    CHECK(stand_in_tries() == tries, "%d more loads", stand_in_tries() - tries);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

/* --- many at once ---------------------------------------------------------------------------- */

typedef struct user {
    const stage *bench;
    atomic_bool *stop;
    long used, torn, fell; /* answers in all, from mixed weights, older than one seen before */
    pthread_t thread;
} user;

static void *use(void *argument)
{
    user *u = argument;
    int last = 0;
    while (!*u->stop) {
        int generation = stage_generation(u->bench, "m");
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

static void reload_all(const stage *b, bool with_unloads)
{
    for (int i = 1; i <= RELOADS; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        stage_model(b, "m", text);
        if (with_unloads && i % 3 == 0)
            CHECK(stage_change(b, SRV_MODEL_UNLOAD, "m") == ATTN_OK, "unload %d", i);
        if (i % 2)
            CHECK(stage_change(b, SRV_MODEL_LOAD, "m") == ATTN_OK, "load %d", i);
        else
            stage_rescan(b);
    }
}

static void weights_are_wholly_old_or_new(void)
{
    for (int with_unloads = 0; with_unloads <= 1; with_unloads++) {
        stage b;
        atomic_bool stop = false;
        user users[USERS];
        stage_prepare(&b);
        stage_model(&b, "m", "0");
        stage_open(&b, false, 2);
        stage_rescan(&b);
        for (int i = 0; i < USERS; i++) {
            users[i] = (user){.bench = &b, .stop = &stop};
            stage_require(pthread_create(&users[i].thread, NULL, use, &users[i]) == 0, "a thread");
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
        stage_check_generation(&b, "m", RELOADS);
        stage_change(&b, SRV_MODEL_UNLOAD, "m");
        CHECK(stand_in_open_count() == 0, "old weights are kept: %d", stand_in_open_count());
        stage_close(&b);
    }
}

static void cycles_leave_memory_flat(void)
{
    stage b;
    stage_prepare(&b);
    stage_open(&b, true, 1);
    size_t before = 0;
    for (int i = 0; i < CYCLES; i++) {
        char name[32];
        snprintf(name, sizeof name, "m%d", i);
        stage_model(&b, name, "1");
        CHECK(stage_change(&b, SRV_MODEL_LOAD, name) == ATTN_OK, "load %d", i);
        stage_remove(stage_path(&b, name));
        CHECK(stage_change(&b, SRV_MODEL_UNLOAD, name) == ATTN_OK, "unload %d", i);
        CHECK(stage_change(&b, SRV_MODEL_LOAD, "no-folder") == ATTN_INVALID, "no folder");
        if (i == WARM_CYCLES) /* by now the threads' caches, which count as used, are full */
            before = mallinfo2().uordblks; /* 0 beneath a sanitizer, as is what follows */
    }
    size_t after = mallinfo2().uordblks;
    CHECK(after < before + 1024, "%zu bytes after %d cycles, %zu after %d", before, WARM_CYCLES,
          after, CYCLES);
    stage_check_list(&b, "");
    stage_close(&b);
}

int main(void)
{
    return test_main("registry_turns",
                     (const test_case[]){
                         {"an unload waits for the last user", an_unload_waits_for_the_last_user},
                         {"a first load is waited for", a_first_load_is_waited_for},
                         {"a stop begins no more loads", a_stop_begins_no_more_loads},
                         {"weights are wholly old or new", weights_are_wholly_old_or_new},
                         {"cycles leave memory flat", cycles_leave_memory_flat},
                         {NULL, NULL},
                     });
}
