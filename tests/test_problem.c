/* Refusals: how each failure of the library reaches a client, and the two shapes it is told in. */
#include "server/answer.h"
#include "server/problem.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The table */

static const struct {
    srv_problem_id id;
    int http;
    const char *type;
} contract[] = {
    {SRV_PROBLEM_MALFORMED, 400, "malformed"},
    {SRV_PROBLEM_INVALID, 400, "invalid_argument"},
    {SRV_PROBLEM_FORBIDDEN, 403, "forbidden"},
    {SRV_PROBLEM_NOT_FOUND, 404, "not_found"},
    {SRV_PROBLEM_METHOD, 405, "method_not_allowed"},
    {SRV_PROBLEM_TOO_LARGE, 413, "payload_too_large"},
    {SRV_PROBLEM_MEDIA_TYPE, 415, "unsupported_media_type"},
    {SRV_PROBLEM_UNSUPPORTED, 422, "unsupported"},
    {SRV_PROBLEM_INFEASIBLE, 422, "infeasible"},
    {SRV_PROBLEM_NON_FINITE, 422, "non_finite"},
    {SRV_PROBLEM_OVERLOADED, 429, "overloaded"},
    {SRV_PROBLEM_CANCELLED, 499, "cancelled"},
    {SRV_PROBLEM_INTERNAL, 500, "internal"},
    {SRV_PROBLEM_UNAVAILABLE, 503, "unavailable"},
    {SRV_PROBLEM_LOADING, 503, "unavailable"},
    {SRV_PROBLEM_NO_MEMORY, 503, "unavailable"},
    {SRV_PROBLEM_DEADLINE, 504, "deadline_exceeded"},
};

static void the_table_is_the_contracts(void)
{
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        srv_problem_id id = contract[i].id;
        CHECK(srv_problem_http(id) == contract[i].http, "%s is %d", contract[i].type,
              srv_problem_http(id));
        CHECK(strcmp(srv_problem_type(id), contract[i].type) == 0, "%s is %s", contract[i].type,
              srv_problem_type(id));
    }
}

static void reasons_are_labels_of_the_metric(void)
{
    static const char *const labels[] = {"",         "validation", "too_large",
                                         "memory",   "draining",   "queue_full",
                                         "deadline", "auth",       "infeasible"};
    static const srv_problem_id ids[] = {
#define PROBLEM(id, http, type, reason) SRV_PROBLEM_##id,
#include "server/problem.def"
#undef PROBLEM
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        bool known = false;
        for (size_t l = 0; l < sizeof labels / sizeof *labels; l++)
            known = known || strcmp(srv_problem_reason(ids[i]), labels[l]) == 0;
        CHECK(known, "%s has reason %s", srv_problem_type(ids[i]), srv_problem_reason(ids[i]));
    }
}

/* From the library */

static const struct {
    attn_status status;
    srv_problem_id id;
    const char *sentence; /* when the library has none */
} statuses[] = {
    {ATTN_OK, SRV_PROBLEM_INTERNAL, "a fault of attnd's own"},
    {ATTN_MALFORMED, SRV_PROBLEM_MALFORMED, ""},
    {ATTN_INVALID, SRV_PROBLEM_INVALID, ""},
    {ATTN_UNSUPPORTED, SRV_PROBLEM_UNSUPPORTED, ""},
    {ATTN_INFEASIBLE, SRV_PROBLEM_INFEASIBLE, ""},
    {ATTN_NOT_FOUND, SRV_PROBLEM_NOT_FOUND, ""},
    {ATTN_NO_MEMORY, SRV_PROBLEM_NO_MEMORY, "no memory left"},
    {ATTN_NON_FINITE, SRV_PROBLEM_NON_FINITE, ""},
    {ATTN_CANCELLED, SRV_PROBLEM_CANCELLED, "cancelled"},
    {ATTN_DEADLINE, SRV_PROBLEM_DEADLINE, "deadline passed"},
    {ATTN_INTERNAL, SRV_PROBLEM_INTERNAL, "a fault of attnd's own"},
};

static void every_status_is_a_problem(void)
{
    static const char *const names[] = {
#define STATUS(code, name, meaning) name,
#include "attn/status.def"
#undef STATUS
    };
    CHECK(sizeof statuses / sizeof *statuses == sizeof names / sizeof *names,
          "a status is not tested");
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        attn_error told = {statuses[i].status, "q[1]", "q[1]: 5% of it is wrong: %s %n"};
        const attn_error silent = {statuses[i].status, "q", ""};
        srv_problem problem = srv_problem_from(statuses[i].status, &told);
        CHECK(problem.id == statuses[i].id, "%s is %s", names[i], srv_problem_type(problem.id));
        CHECK(strcmp(problem.message, told.message) == 0, "%s: %s", names[i], problem.message);
        CHECK(strcmp(problem.param, "q[1]") == 0, "%s: param %s", names[i], problem.param);
        for (int given = 0; given < 2; given++) {
            problem = srv_problem_from(statuses[i].status, given ? &silent : NULL);
            CHECK(problem.id == statuses[i].id, "%s is %s", names[i], srv_problem_type(problem.id));
            CHECK(problem.message[0] && strstr(problem.message, statuses[i].sentence),
                  "%s: \"%s\", expected \"%s\"", names[i], problem.message, statuses[i].sentence);
            CHECK(!problem.param[0], "%s: param %s without a sentence", names[i], problem.param);
        }
    }
}

static void long_sentences_are_cut(void)
{
    char word[1000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    srv_problem problem = srv_problem_make(SRV_PROBLEM_INVALID, word, "%s", word);
    CHECK(strlen(problem.param) == sizeof problem.param - 1, "%zu", strlen(problem.param));
    CHECK(strlen(problem.message) == sizeof problem.message - 1, "%zu", strlen(problem.message));
    problem = srv_problem_make(SRV_PROBLEM_INVALID, NULL, "%d", 5);
    CHECK(!problem.param[0] && strcmp(problem.message, "5") == 0, "%s", problem.message);
}

/* The two shapes */

static json_t *body_of(const srv_answer *answer)
{
    CHECK(answer->part_count == 1, "%zu parts", answer->part_count);
    return answer->part_count ? json_loadb(answer->parts[0].data, answer->parts[0].length, 0, NULL)
                              : NULL;
}

static void check_v1(const srv_problem *problem, const char *path, const char *message)
{
    srv_answer answer = {0};
    srv_answer_problem(&answer, problem, path, "id-1");
    json_t *body = body_of(&answer);
    json_t *expected = json_pack("{s:{s:s, s:s, s:s*, s:s}}", "error", "type",
                                 srv_problem_type(problem->id), "message", message, "param",
                                 problem->param[0] ? problem->param : NULL, "request_id", "id-1");
    CHECK(body && expected && json_equal(body, expected), "%s: %.*s", path,
          (int)answer.parts[0].length, answer.parts[0].data);
    CHECK(answer.status == srv_problem_http(problem->id), "%s: %d", path, answer.status);
    CHECK(answer.problem_type == srv_problem_type(problem->id), "%s: %s", path,
          answer.problem_type);
    CHECK(strcmp(answer.content_type, "application/json") == 0, "%s", answer.content_type);
    json_decref(expected);
    json_decref(body);
    srv_answer_free(&answer);
}

static void check_v2(const srv_problem *problem, const char *path, const char *message)
{
    srv_answer answer = {0};
    srv_answer_problem(&answer, problem, path, "id-1");
    json_t *body = body_of(&answer), *expected = json_pack("{s:s}", "error", message);
    CHECK(body && expected && json_equal(body, expected), "%s: %.*s", path,
          (int)answer.parts[0].length, answer.parts[0].data);
    CHECK(answer.status == srv_problem_http(problem->id), "%s: %d", path, answer.status);
    json_decref(expected);
    json_decref(body);
    srv_answer_free(&answer);
}

static void each_surface_has_its_shape(void)
{
    static const char *const first[] = {"/v1/attend", "/v1/nothing", "/",    "/healthz",
                                        "",           "/v",          "/v20", "/v2x/models"};
    static const char *const second[] = {"/v2", "/v2/", "/v2/models/demo/infer", "/v2/nothing"};
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        srv_problem with = srv_problem_make(contract[i].id, "q", "q is %d", 5);
        srv_problem without = srv_problem_make(contract[i].id, NULL, "no");
        for (size_t p = 0; p < sizeof first / sizeof *first; p++) {
            check_v1(&with, first[p], "q is 5");
            check_v1(&without, first[p], "no");
        }
        for (size_t p = 0; p < sizeof second / sizeof *second; p++)
            check_v2(&with, second[p], "q is 5");
    }
}

static void what_the_client_wrote_is_escaped(void)
{
    static const char *const texts[][2] = {
        {"\"quoted\" and \\ back", "\"quoted\" and \\ back"},
        {"</script>\n\r\t\b\f\x01\x1f\x7f", "</script>\n\r\t\b\f\x01\x1f\x7f"},
        {"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"},
        {"cut \xc3", "cut \xef\xbf\xbd"},
        {"no \xff text", "no \xef\xbf\xbd text"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        srv_problem problem = srv_problem_make(SRV_PROBLEM_INVALID, NULL, "%s", texts[i][0]);
        check_v1(&problem, "/v1/attend", texts[i][1]);
        check_v2(&problem, "/v2/models", texts[i][1]);
    }
    srv_problem problem = srv_problem_make(SRV_PROBLEM_INVALID, "a\"b\\\n", "x");
    check_v1(&problem, "/v1/attend", "x");
}

static void who_may_try_again_is_told_when(void)
{
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        for (int known = 0; known < 2; known++) {
            srv_answer answer = {0};
            srv_problem problem = srv_problem_make(contract[i].id, NULL, "no");
            problem.retry_after_s = known ? 7 : 0;
            srv_answer_problem(&answer, &problem, "/v1/attend", "id");
            bool retry = contract[i].http == 429 || contract[i].http == 503;
            int expected = !retry ? 0 : known ? 7 : 1;
            CHECK(answer.retry_after_s == expected, "%s: Retry-After %d, expected %d",
                  contract[i].type, answer.retry_after_s, expected);
            srv_answer_free(&answer);
        }
    }
}

/* Answers */

static char *copy_of(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        abort();
    return copy;
}

static void a_refusal_replaces_what_was_there(void)
{
    srv_answer answer = {.status = 200, .allow = "GET", .server_timing = "x"};
    for (int i = 0; i < 9; i++)
        CHECK(srv_answer_add(&answer, copy_of("part"), 4), "part %d", i);
    CHECK(answer.part_count == 9 && srv_answer_bytes(&answer) == 36, "%zu parts of %zu bytes",
          answer.part_count, srv_answer_bytes(&answer));
    srv_problem problem = srv_problem_make(SRV_PROBLEM_NON_FINITE, "output[0]", "a NaN");
    srv_answer_problem(&answer, &problem, "/v1/attend", "id");
    CHECK(answer.status == 422 && answer.part_count == 1, "status %d, %zu parts", answer.status,
          answer.part_count);
    CHECK(!answer.allow[0] && !answer.server_timing[0], "headers of the old answer are left");
    CHECK(srv_answer_bytes(&answer) == strlen(answer.parts[0].data), "%zu bytes",
          srv_answer_bytes(&answer));
    srv_answer_free(&answer);
    CHECK(!answer.parts && !answer.status && srv_answer_bytes(&answer) == 0, "not empty");
    srv_answer_free(&answer);
}

static void an_answer_without_memory_is_a_bare_503(void)
{
    srv_answer answer = {0};
    srv_text text = {.failed = true};
    CHECK(!srv_answer_add(&answer, NULL, 0), "nothing was added");
    srv_answer_text(&answer, 200, "text/plain", &text);
    CHECK(answer.status == 503 && answer.part_count == 0, "status %d, %zu parts", answer.status,
          answer.part_count);
    srv_answer_free(&answer);
    srv_text_free(&text);
}

static const test_case cases[] = {
    {"the table is the contract's", the_table_is_the_contracts},
    {"reasons are labels of the metric", reasons_are_labels_of_the_metric},
    {"every status is a problem", every_status_is_a_problem},
    {"long sentences are cut", long_sentences_are_cut},
    {"each surface has its shape", each_surface_has_its_shape},
    {"what the client wrote is escaped", what_the_client_wrote_is_escaped},
    {"who may try again is told when", who_may_try_again_is_told_when},
    {"a refusal replaces what was there", a_refusal_replaces_what_was_there},
    {"an answer without memory is a bare 503", an_answer_without_memory_is_a_bare_503},
    {NULL, NULL},
};

int main(void)
{
    return test_main("problem", cases);
}
