/* The registry of models, on a stand-in for their weights: what names stand for. */
#include "server/models/registry.h"

#include "server/endpoints/endpoints.h"
#include "server/request.h"
#include "tests/inline/model.h"
#include "tests/inline/stage.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_start_loads_what_it_can(void)
{
    stage b;
    stage_prepare(&b);
    stage_model(&b, "two", "2");
    stage_model(&b, "broken", "?");
    stage_model(&b, "one", "1");
    stage_open(&b, false, 2);
    CHECK(!srv_registry_is_settled(b.registry), "nothing is loaded yet");
    stage_rescan(&b);
    CHECK(srv_registry_is_settled(b.registry), "a model that failed does not keep it unsettled");
    stage_check_generation(&b, "one", 1);
    stage_check_generation(&b, "two", 2);
    stage_check_generation(&b, "broken", -2);
    stage_check_generation(&b, "other", -2);
    stage_check_generation(&b, "../one", -2);
    char status[512] = "";
    CHECK(srv_registry_visit(b.registry, "two", stage_print_status, status) == 1, "one visit");
    CHECK(strcmp(status, "two READY|") == 0, "%s", status);
    CHECK(srv_registry_visit(b.registry, "tw", stage_print_status, status) == 0, "no visit");
    char expected[256];
    snprintf(expected, sizeof expected, "broken UNAVAILABLE %.24s|one READY|two READY|", b.folder);
    stage_check_list(&b, expected);
    CHECK(stage_logged(&b, "model not loaded"), "the failure is logged");
    stage_close(&b);
}

static int asked_whether_ready(const stage *b)
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
    stage b;
    sem_t entered, gate;
    stage_prepare(&b);
    sem_init(&entered, 0, 0);
    sem_init(&gate, 0, 0);
    stage_model(&b, "bad", "?");
    stage_model(&b, "good", "1");
    stage_open(&b, false, 2);
    CHECK(asked_whether_ready(&b) == 503, "before the first load");
    stand_in_hold(&entered, &gate);
    srv_registry_rescan(b.registry);
    sem_wait(&entered);
    stage_check_list(&b, "bad LOADING not loaded|good LOADING not loaded|");
    stage_check_generation(&b, "good", -3);
    CHECK(asked_whether_ready(&b) == 503, "during the first load");
    sem_post(&gate);
    sem_wait(&entered);
    CHECK(asked_whether_ready(&b) == 503, "between two loads");
    stand_in_hold(NULL, NULL);
    sem_post(&gate);
    stage_rescan(&b);
    CHECK(asked_whether_ready(&b) == 200, "after all of them");
    stage_close(&b);
    sem_destroy(&entered);
    sem_destroy(&gate);
}

static void nothing_is_no_models(void)
{
    stage b;
    attn_error error = {0};
    srv_problem problem;
    stage_prepare(&b);
    CHECK(!srv_registry_open(stage_path(&b, "gone"), false, NULL, &b.log, &error), "no folder");
    CHECK(error.status == ATTN_INVALID && strstr(error.message, "gone"), "%s", error.message);
    CHECK(!srv_registry_acquire(NULL, "m", &problem) && problem.id == SRV_PROBLEM_NOT_FOUND,
          "no registry");
    CHECK(srv_registry_visit(NULL, NULL, stage_print_status, NULL) == 0 &&
              srv_registry_is_settled(NULL),
          "no registry");
    b.registry = srv_registry_open("", false, NULL, &b.log, &error);
    stage_require(b.registry != NULL, error.message);
    CHECK(srv_registry_is_settled(b.registry), "there is nothing to load");
    srv_registry_rescan(b.registry);
    stage_check_generation(&b, "m", -2);
    stage_close(&b);
}

static void loading_can_be_explicit(void)
{
    stage b;
    stage_prepare(&b);
    stage_model(&b, "m", "1");
    stage_open(&b, true, 1);
    stage_rescan(&b);
    stage_check_list(&b, "m UNAVAILABLE not loaded|");
    stage_check_generation(&b, "m", -2);
    CHECK(stage_change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "load");
    stage_check_generation(&b, "m", 1);
    stage_model(&b, "m", "2");
    stage_check_generation(&b, "m", 1);
    CHECK(stage_change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "load again");
    stage_check_generation(&b, "m", 2);
    CHECK(stage_change(&b, SRV_MODEL_UNLOAD, "m") == ATTN_OK, "unload");
    CHECK(stand_in_open_count() == 0, "unloaded is closed: %d open", stand_in_open_count());
    stage_check_list(&b, "m UNAVAILABLE unloaded|");
    stage_rescan(&b);
    stage_check_list(&b, "m UNAVAILABLE unloaded|");
    stage_close(&b);
}

static void unknown_names_are_told(void)
{
    stage b;
    stage_waited w;
    stage_prepare(&b);
    stage_open(&b, true, 1);
    stage_ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(stage_await(&w) == ATTN_INVALID && w.change.unknown, "%s", w.change.error.message);
    stage_ask(&b, &w, SRV_MODEL_UNLOAD, "m");
    CHECK(stage_await(&w) == ATTN_OK && w.change.unknown, "an unload of nothing");
    stage_check_list(&b, "");
    stage_model(&b, "m", "1");
    stage_ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(stage_await(&w) == ATTN_OK && !w.change.unknown, "%s", w.change.error.message);
    stage_remove(stage_path(&b, "m"));
    stage_ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(stage_await(&w) == ATTN_INVALID && w.change.unknown, "its folder is gone");
    stage_check_generation(&b, "m", 1);
    stage_ask(&b, &w, SRV_MODEL_UNLOAD, "m");
    CHECK(stage_await(&w) == ATTN_OK && !w.change.unknown, "an unload of what was there");
    stage_check_list(&b, "");
    stage_close(&b);
}

static void a_failed_load_changes_nothing(void)
{
    stage b;
    stage_waited w;
    stage_prepare(&b);
    stage_model(&b, "m", "1");
    stage_open(&b, true, 2);
    stage_change(&b, SRV_MODEL_LOAD, "m");
    stage_model(&b, "m", "?");
    stage_ask(&b, &w, SRV_MODEL_LOAD, "m");
    CHECK(stage_await(&w) == ATTN_INVALID && !w.change.unknown && w.change.error.message[0],
          "it fails");
    stage_check_generation(&b, "m", 1);
    char expected[128];
    snprintf(expected, sizeof expected, "m READY %.24s|", b.folder);
    stage_check_list(&b, expected);
    stage_model(&b, "m", "3");
    CHECK(stage_change(&b, SRV_MODEL_LOAD, "m") == ATTN_OK, "mended");
    stage_check_list(&b, "m READY|");
    stage_check_generation(&b, "m", 3);
    stage_close(&b);
}

static void a_rescan_follows_the_folders(void)
{
    stage b;
    stage_prepare(&b);
    stage_model(&b, "changed", "1");
    stage_model(&b, "gone", "1");
    stage_model(&b, "same", "1");
    stage_model(&b, "spoilt", "1");
    stage_model(&b, "mended", "?");
    stage_open(&b, false, 2);
    stage_rescan(&b);
    int tries = stand_in_tries();
    stage_rescan(&b);
    CHECK(stand_in_tries() == tries + 1, "only what failed is tried again");
    stage_model(&b, "changed", "2");
    stage_model(&b, "fresh", "5");
    stage_model(&b, "spoilt", "?");
    stage_model(&b, "mended", "6");
    stage_remove(stage_path(&b, "gone"));
    stage_rescan(&b);
    CHECK(stand_in_tries() == tries + 5, "%d tries", stand_in_tries() - tries);
    stage_check_generation(&b, "changed", 2);
    stage_check_generation(&b, "fresh", 5);
    stage_check_generation(&b, "gone", -2);
    stage_check_generation(&b, "mended", 6);
    stage_check_generation(&b, "same", 1);
    stage_check_generation(&b, "spoilt", 1);
    char moved[STAGE_PATH_BYTES];
    snprintf(moved, sizeof moved, "%s-moved", b.folder);
    CHECK(rename(b.folder, moved) == 0, "the whole folder is away");
    stage_rescan(&b);
    stage_check_generation(&b, "same", 1);
    CHECK(stage_logged(&b, "models left as they are"), "and that is logged");
    CHECK(rename(moved, b.folder) == 0, "and back");
    stage_close(&b);
}

int main(void)
{
    return test_main("registry",
                     (const test_case[]){
                         {"a start loads what it can", a_start_loads_what_it_can},
                         {"readiness waits for the start", readiness_waits_for_the_start},
                         {"nothing is no models", nothing_is_no_models},
                         {"loading can be explicit", loading_can_be_explicit},
                         {"unknown names are told", unknown_names_are_told},
                         {"a failed load changes nothing", a_failed_load_changes_nothing},
                         {"a rescan follows the folders", a_rescan_follows_the_folders},
                         {NULL, NULL},
                     });
}
