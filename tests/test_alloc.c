/* Every allocation of ours fails in its turn: what is done then is refused with "no memory", or
 * done all the same where the allocation was a luxury; nothing crashes, nothing leaks, and nobody
 * is told that it was the client's fault. jansson allocates through us here and fails likewise. */
#include "attn/blas.h"
#include "attn/safetensors.h"
#include "server/endpoints/endpoints.h"
#include "server/init_model/init_model.h"
#include "server/text.h"
#include "tests/alloc/inject.h"
#include "tests/inline/serve.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MOST_ALLOCATIONS = 20000, /* of one operation */
};

typedef enum outcome {
    DONE,
    REFUSED,
    WRONG,
} outcome;

/* An operation prepares, starts the injection, works, stops it, and judges what came out. `turn` is
 * what to start the injection with. */
typedef struct turn {
    long number;
    bool all_after;
    bool failed; /* set by the operation: an allocation did fail */
} turn;

typedef outcome operation(turn *t, const void *argument);

static void start(const turn *t)
{
    inject_start(t->number, t->all_after);
}

static void stop(turn *t)
{
    t->failed = inject_stop();
}

/* Fail allocation 1, 1 + step, 1 + 2 step, ... until there is none of that number. */
static void run_turns(const char *name, operation *run, const void *argument, long step,
                      bool all_after)
{
    for (long number = 1; number < MOST_ALLOCATIONS; number += step) {
        turn t = {.number = number, .all_after = all_after};
        long live = inject_live();
        outcome came = run(&t, argument);
        CHECK(inject_live() == live, "%s: failing allocation %ld%s leaks %ld blocks", name, number,
              all_after ? " and on" : "", inject_live() - live);
        CHECK(came != WRONG, "%s: failing allocation %ld%s goes wrong", name, number,
              all_after ? " and on" : "");
        if (t.failed)
            continue;
        CHECK(came == DONE, "%s: refused although every allocation succeeds", name);
        CHECK(number > 1, "%s: allocates nothing", name);
        return;
    }
    CHECK(0, "%s: more than %d allocations", name, MOST_ALLOCATIONS);
}

static void fail_each(const char *name, operation *run, const void *argument)
{
    run_turns(name, run, argument, 1, false);
    run_turns(name, run, argument, 1, true);
}

/* Requests */

typedef struct asked {
    const char *name;
    srv_endpoint *endpoint;
    srv_format format, wanted;
    const char *option, *value; /* a query of one pair, or NULL */
    const char *body;           /* JSON, or a safetensors header for `data` */
    const char *data;
    size_t data_bytes;
    int status;
    const char *holds; /* what the right answer contains */
} asked;

#define JSON_TENSORS "\"q\":[[1,2],[3,4]],\"k\":[[1,0],[0,1]],\"v\":[[5,6],[7,8]]"
#define TENSORS_HEADER                                                   \
    "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}," \
    "\"k\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[4,6]},"  \
    "\"v\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[6,10]}}"
#define TENSORS_DATA "\0\0\x80\x3f\0\x3c\0\0\x80\x3f", 10

static const asked requests[] = {
    {"nested", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS "}", NULL, 0, 200, "\"output\": [[6.33"},
    {"causal", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"causal\":true,\"key_mask\":[1,1]}", NULL, 0, 200, "\"output\": [[5,6],"},
    {"lengths", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_SAFETENSORS, NULL, NULL,
     "{" JSON_TENSORS ",\"lengths\":[2],\"params\":{\"window\":5}}", NULL, 0, 200, "\"output\""},
    {"flat", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{\"q\":{\"shape\":[1,1],\"data\":[1]},\"k\":[[1]],\"v\":[[3]]}", NULL, 0, 200,
     "\"data\":[3]"},
    {"base64", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{\"q\":{\"shape\":[1,1],\"base64\":\"AACAPw==\"},\"k\":{\"datatype\":\"FP16\","
     "\"shape\":[1,1],\"base64\":\"ADw=\"},\"v\":[[1]]}",
     NULL, 0, 200, "\"base64\":\"AACAPw==\""},
    {"escaped keys", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{\"\\u0071\":[[1]],\"\\u006b\":[[1]],\"v\":[[3]],\"\\u0073cale\":2}", NULL, 0, 200,
     "\"output\": [[3]]"},
    {"safetensors", srv_endpoint_attend, SRV_FORMAT_SAFETENSORS, SRV_FORMAT_SAFETENSORS, "lengths",
     "1", TENSORS_HEADER, TENSORS_DATA, 200, "\"output\""},
    {"safetensors to JSON", srv_endpoint_attend, SRV_FORMAT_SAFETENSORS, SRV_FORMAT_JSON, "scale",
     "0.5", TENSORS_HEADER, TENSORS_DATA, 200, "\"data\":[1]"},
    {"window", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"backend\":\"window\",\"params\":{\"window\":1}}", NULL, 0, 200,
     "\"window\""},
    {"sparse", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"backend\":\"sparse\",\"params\":{\"stride\":1}}", NULL, 0, 200,
     "\"sparse\""},
    {"linformer", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"backend\":\"linformer\",\"e\":[[1,0]],\"f\":[[0,1]]}", NULL, 0, 200,
     "\"linformer\""},
    {"performer", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"backend\":\"performer\",\"omega\":[[1,0],[0,1]]}", NULL, 0, 200,
     "\"performer\""},
    {"plan", srv_endpoint_plan, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{\"shape\":{\"n\":100},\"hints\":{\"long_range\":true}}", NULL, 0, 200, "\"considered\""},
    {"analyze", srv_endpoint_analyze, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"windows\":[1],\"features\":3}", NULL, 0, 200, "\"advice\": [{"},
    {"analyze safetensors", srv_endpoint_analyze, SRV_FORMAT_SAFETENSORS, SRV_FORMAT_JSON,
     "windows", "1,2", TENSORS_HEADER, TENSORS_DATA, 200, "\"k_energy\""},
    {"analyze too much", srv_endpoint_analyze, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"lengths\":[1]}", NULL, 0, 400, "lengths"},
    {"not JSON", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL, "{\"q\":[[1]",
     NULL, 0, 400, "malformed"},
    {"unknown field", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{" JSON_TENSORS ",\"colour\":1}", NULL, 0, 400, "colour"},
    {"no such tensor", srv_endpoint_attend, SRV_FORMAT_SAFETENSORS, SRV_FORMAT_JSON, NULL, NULL,
     "{\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", "", 0, 400, "known are"},
    {"overflow", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{\"q\":[[1],[1]],\"k\":[[1],[1]],\"v\":[[3e38],[3e38]]}", NULL, 0, 422, "not finite"},
    {"no such model", srv_endpoint_attend, SRV_FORMAT_JSON, SRV_FORMAT_JSON, NULL, NULL,
     "{\"model\":\"demo\",\"input\":[[1]]}", NULL, 0, 404, "demo"},
    {"models", srv_endpoint_models, SRV_FORMAT_NONE, SRV_FORMAT_JSON, NULL, NULL, "", NULL, 0, 200,
     "models"},
    {"live", srv_endpoint_live, SRV_FORMAT_NONE, SRV_FORMAT_JSON, NULL, NULL, "", NULL, 0, 200,
     "true"},
    {"ready", srv_endpoint_ready, SRV_FORMAT_NONE, SRV_FORMAT_JSON, NULL, NULL, "", NULL, 0, 200,
     "true"},
    {"metrics", srv_endpoint_metrics, SRV_FORMAT_NONE, SRV_FORMAT_JSON, NULL, NULL, "", NULL, 0,
     200, "attnd_ready 1"},
    {"openapi", srv_endpoint_openapi, SRV_FORMAT_NONE, SRV_FORMAT_JSON, NULL, NULL, "", NULL, 0,
     200, "/v1/plan"},
};

/* Length, header and data of a safetensors body, or a copy of a JSON one; at `to`. */
static size_t make_body(const asked *a, char to[512])
{
    size_t header = strlen(a->body);
    if (a->format != SRV_FORMAT_SAFETENSORS) {
        memcpy(to, a->body, header);
        return header;
    }
    for (int i = 0; i < 8; i++)
        to[i] = (char)(header >> 8 * i);
    memcpy(to + 8, a->body, header);
    memcpy(to + 8 + header, a->data, a->data_bytes);
    return 8 + header + a->data_bytes;
}

/* A refusal that says so, or nothing when there was no memory even for that. */
static bool is_proper_refusal(const char *text, size_t length)
{
    if (length == 0)
        return true;
    json_t *answer = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    const char *type = json_string_value(json_object_get(json_object_get(answer, "error"), "type"));
    bool proper = type && strcmp(type, "unavailable") == 0;
    json_decref(answer);
    return proper;
}

static outcome judge_answer(const asked *a, srv_request *request)
{
    int status = request->answer.status;
    size_t length = request->bytes_out;
    char *text = inline_body(request);
    outcome came = WRONG;
    if (status == a->status && memmem(text, length, a->holds, strlen(a->holds)))
        came = DONE;
    else if (status == 503 && is_proper_refusal(text, length))
        came = REFUSED;
    if (came == WRONG)
        printf("%s: %d %s\n", a->name, status, text);
    free(text);
    return came;
}

static outcome run_request(turn *t, const void *argument)
{
    const asked *a = argument;
    char body[512];
    srv_pair query = {a->option, a->value};
    inline_call call = {.endpoint = a->endpoint,
                        .format = a->format,
                        .wanted = a->wanted,
                        .query = &query,
                        .query_count = a->option != NULL,
                        .body = body,
                        .body_length = make_body(a, body)};
    srv_server server;
    srv_request request;
    CHECK(inline_open(&server) && inline_begin(&server, &call, &request), "no memory");
    start(t);
    inline_answer(&call, &request);
    stop(t);
    outcome came = judge_answer(a, &request);
    inline_end(&request);
    CHECK(server.budget.reserved == 0, "%s: %zu bytes stay reserved", a->name,
          (size_t)server.budget.reserved);
    CHECK(server.jobs == 0, "%s: %d jobs are left", a->name, (int)server.jobs);
    inline_close(&server);
    return came;
}

static void test_requests(void)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        fail_each(requests[i].name, run_request, &requests[i]);
}

/* Metrics */

static outcome run_metrics(turn *t, const void *argument)
{
    (void)argument;
    size_t length = 0;
    char *text = NULL;
    start(t);
    srv_metrics *metrics = srv_metrics_open();
    if (metrics) {
        srv_metrics_add(metrics, SRV_METRIC_ROUTE, 1, SRV_LABELS("exact", "short"));
        srv_metrics_observe(metrics, SRV_METRIC_REQUEST_QUEUE, 0.5, SRV_LABELS("exact"));
        srv_metrics_set(metrics, SRV_METRIC_READY, 1, NULL);
        text = srv_metrics_print(metrics, &length);
    }
    stop(t);
    bool whole = text && strstr(text, "attnd_ready 1\n") && text[length - 1] == '\n';
    bool counted = text && strstr(text, "attnd_route_total{backend=\"exact\",rule=\"short\"} 1\n");
    outcome came = !text ? REFUSED : whole && (counted || t->failed) ? DONE : WRONG;
    free(text);
    srv_metrics_close(metrics);
    return came;
}

static void test_metrics(void)
{
    fail_each("metrics", run_metrics, NULL);
}

/* The configuration */

static outcome run_config(turn *t, const void *argument)
{
    char file[32], flag[] = "--max-queue=7", variable[] = "ATTND_WORKERS=3",
                   config_flag[] = "--config";
    char *const arguments[] = {flag, config_flag, file, NULL};
    char *const environment[] = {variable, NULL};
    srv_config config;
    attn_error error = {0};
    bool check, print;
    int fd = *(const int *)argument;
    snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
    start(t);
    attn_status status = srv_config_read(&config, arguments, environment, &check, &print, &error);
    stop(t);
    if (status != ATTN_OK)
        return status == ATTN_NO_MEMORY && error.message[0] ? REFUSED : WRONG;
    bool right = config.max_queue == 7 && config.workers == 3 && config.max_connections == 9 &&
                 strcmp(config.isa, "scalar") == 0;
    return right ? DONE : WRONG;
}

static void test_config(void)
{
    static const char text[] =
        "{\"isa\": \"scalar\", \"max_connections\": \"9\", \"workers\": \"1\"}";
    int fd = memfd_create("config", MFD_CLOEXEC);
    CHECK(write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1, "no file in memory");
    fail_each("config", run_config, &fd);
    close(fd);
}

/* A model is written whole, or nothing of it is left. */

static outcome run_init_model(turn *t, const void *argument)
{
    char folder[64], config[96], weights[96];
    snprintf(folder, sizeof folder, "%s/model", (const char *)argument);
    snprintf(config, sizeof config, "%s/config.json", folder);
    snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
    char *const arguments[] = {folder, "--dim", "4", "--k", "2", "--seq-len", "4", NULL};
    start(t);
    int ended = srv_init_model(arguments);
    stop(t);
    if (ended != EXIT_SUCCESS)
        return ended == EXIT_FAILURE && access(folder, F_OK) != 0 ? REFUSED : WRONG;
    bool whole = unlink(config) == 0 && unlink(weights) == 0 && rmdir(folder) == 0;
    return whole ? DONE : WRONG;
}

static void test_init_model(void)
{
    char folder[] = "/tmp/attnd-test-XXXXXX";
    CHECK(mkdtemp(folder) != NULL, "no folder for the model");
    fail_each("init-model", run_init_model, folder);
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
}

/* Growing text */

static outcome run_text(turn *t, const void *argument)
{
    (void)argument;
    srv_text text = SRV_TEXT_EMPTY;
    size_t length = 0;
    start(t);
    for (int i = 0; i < 1000; i++)
        srv_text_format(&text, "%d,", i % 10);
    srv_text_real(&text, 0.1);
    srv_text_json(&text, "\x80");
    char *data = srv_text_release(&text, &length);
    stop(t);
    bool right = data && length == strlen(data) && strncmp(data, "0,1,2,", 6) == 0 &&
                 strcmp(data + 2000, "0.1\"\uFFFD\"") == 0;
    outcome came = !data ? REFUSED : right ? DONE : WRONG;
    free(data);
    return came;
}

static void test_text(void)
{
    fail_each("text", run_text, NULL);
}

/* The executor */

typedef struct counting_job {
    srv_job job;
    bool begun;
    int tiles; /* run; on one worker */
    sem_t over;
} counting_job;

static bool next_phase(srv_job *job, attn_phase *phase)
{
    counting_job *c = (counting_job *)(void *)job;
    *phase = (attn_phase){"count", 3, 1};
    bool more = !c->begun;
    c->begun = true;
    return more;
}

static attn_status run_tile(srv_job *job, int64_t tile, attn_arena *scratch)
{
    (void)tile;
    ((counting_job *)(void *)job)->tiles++;
    return attn_arena_take(scratch, 64) ? ATTN_OK : ATTN_NO_MEMORY;
}

static void end_job(srv_job *job)
{
    sem_post(&((counting_job *)(void *)job)->over);
}

static outcome run_executor(turn *t, const void *argument)
{
    (void)argument;
    attn_error error = {0};
    counting_job c = {
        .job = {.next = next_phase, .run = run_tile, .done = end_job, .scratch_bytes = 64}};
    sem_init(&c.over, 0, 0);
    start(t);
    srv_executor *executor = srv_executor_open(1, &error);
    if (executor) {
        srv_executor_submit(executor, &c.job);
        sem_wait(&c.over);
    }
    stop(t);
    srv_executor_close(executor);
    sem_destroy(&c.over);
    if (!executor)
        return error.status == ATTN_NO_MEMORY && error.message[0] ? REFUSED : WRONG;
    return c.tiles == 3 && c.job.status == ATTN_OK ? DONE : WRONG;
}

static void test_executor(void)
{
    fail_each("executor", run_executor, NULL);
}

/* The machine */

static outcome run_calibrate(turn *t, const void *argument)
{
    (void)argument;
    attn_machine machine;
    attn_error error = {0};
    start(t);
    attn_status status = attn_machine_probe(&machine, "auto", &error);
    double before = machine.rates.draw_ns = -1;
    if (status == ATTN_OK)
        status = attn_machine_calibrate(&machine, &error);
    stop(t);
    if (status != ATTN_OK)
        return status == ATTN_NO_MEMORY && error.message[0] && machine.rates.draw_ns == before
                   ? REFUSED
                   : WRONG;
    return machine.rates.draw_ns > 0 ? DONE : WRONG;
}

static void test_calibrate(void)
{
    /* It times everything before it fails, and makes hundreds of small programs. */
    const long step = 131;
    run_turns("calibrate", run_calibrate, NULL, step, false);
    run_turns("calibrate", run_calibrate, NULL, step, true);
}

int main(void)
{
    attn_blas_init();
    static const test_case cases[] = {
        {"requests", test_requests},
        {"metrics", test_metrics},
        {"configuration", test_config},
        {"init-model", test_init_model},
        {"text", test_text},
        {"executor", test_executor},
        {"machine", test_calibrate},
        {NULL, NULL},
    };
    json_set_alloc_funcs(malloc, free);
    return test_main("alloc", cases);
}
