/* libFuzzer target: what is decided from a request's head before its body is read.
 *
 * The input is lines: `METHOD PATH VERSION`, then `Name: value`. libmicrohttpd has taken the bytes
 * apart when our code sees them; the target does it in the plainest way. What is accepted must be
 * framed the same by the strictest reader, and whatever is said of the head must be sound text. */
#include "server/answer.h"
#include "server/http_check.h"
#include "server/request_id.h"
#include "server/routes.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MOST_BODY_BYTES = 1000000
};

/* The same headers, counted by the simplest rules. */
typedef struct tally {
    int hosts, lengths, chunked, other_codings;
    const char *length; /* the last */
} tally;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what, const char *which)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, which);
        abort();
    }
}

static void count(tally *t, const char *name, const char *value)
{
    if (strcasecmp(name, "host") == 0)
        t->hosts++;
    if (strcasecmp(name, "content-length") == 0) {
        t->lengths++;
        t->length = value;
    }
    if (strcasecmp(name, "transfer-encoding") == 0)
        *(strcasecmp(value, "chunked") == 0 ? &t->chunked : &t->other_codings) += 1;
}

/* Nothing that two readers could take for different bodies. */
static bool is_plain(const tally *t, const char *version)
{
    if (t->other_codings > 0 || t->chunked + t->lengths > 1 || t->hosts > 1)
        return false;
    if (strcmp(version, "HTTP/1.1") == 0 && t->hosts == 0)
        return false;
    if (strcmp(version, "HTTP/1.0") == 0 && t->chunked > 0)
        return false;
    return !t->length || (t->length[0] && strspn(t->length, "0123456789") == strlen(t->length));
}

/* Above the limit by its digits alone: leading zeros aside, more digits than it, or a greater
 * number. */
static bool is_large(const char *digits)
{
    digits += strspn(digits, "0");
    return strlen(digits) > 7 || atol(digits) > MOST_BODY_BYTES;
}

/* The answer that says it must be JSON whatever bytes it quotes. */
static void check_said(srv_problem_id id, const char *about, const char *path)
{
    srv_problem problem = srv_problem_make(id, about, "found %.64s at %.64s", about, path);
    srv_answer answer = {0};
    srv_answer_problem(&answer, &problem, path, "id");
    require(answer.part_count == 1, "an answer in one part", path);
    json_t *said = json_loadb(answer.parts[0].data, answer.parts[0].length,
                              JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    require(json_is_object(said), "a refusal is not JSON", answer.parts[0].data);
    json_decref(said);
    srv_answer_free(&answer);
}

static void check_framing(const srv_framing *framing, const tally *t, const char *version)
{
    srv_problem problem;
    if (srv_framing_check(framing, version, MOST_BODY_BYTES, &problem)) {
        require(is_plain(t, version), "an ambiguous frame was accepted", version);
        require(!t->length || !is_large(t->length), "a large body was accepted", version);
        require(srv_framing_has_body(framing) == (t->chunked || (t->length && atol(t->length) > 0)),
                "whether there is a body", version);
    } else {
        require(!is_plain(t, version) || (t->length && is_large(t->length)),
                "a plain frame was refused", problem.message);
        require(problem.message[0] && problem.param[0], "a refusal says nothing", version);
    }
}

/* Whether `word` is one of a list with commas. */
static bool lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += strspn(at, ", "))
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0)
            return true;
    return false;
}

static void check_route(const char *method, const char *path)
{
    char allow[64];
    bool takes_method = false;
    const srv_route *route = srv_route_find(method, path, &takes_method, allow, sizeof allow);
    require(route || !takes_method, "a method of no route", method);
    if (!route) {
        check_said(SRV_PROBLEM_NOT_FOUND, method, path);
        return;
    }
    require(strcmp(route->path, path) == 0, "another route", path);
    bool head = strcmp(method, "HEAD") == 0;
    if (takes_method)
        require(strcmp(route->method, head ? "GET" : method) == 0, "another method", method);
    else
        require(lists(allow, route->method) && !lists(allow, method), "allow", allow);
}

static void check_ids(const char *value)
{
    srv_request_id id;
    srv_request_id_set(&id, value);
    size_t length = strlen(id.text);
    require(length >= 1 && length <= SRV_REQUEST_ID_MAX, "length of an id", id.text);
    for (const char *c = id.text; *c; c++)
        require(isalnum((unsigned char)*c) || strchr("._-", *c), "alphabet of an id", id.text);
    srv_trace trace;
    bool read = srv_trace_parse(&trace, value);
    require(strlen(trace.trace_id) == (read ? 32 : 0), "length of a trace id", trace.trace_id);
    require(strlen(trace.parent_id) == (read ? 16 : 0), "length of a parent id", trace.parent_id);
    require(!read || (strspn(trace.trace_id, "0123456789abcdef") == 32 &&
                      strspn(trace.parent_id, "0123456789abcdef") == 16 &&
                      strspn(trace.trace_id, "0") < 32 && strspn(trace.parent_id, "0") < 16),
            "a trace id", trace.trace_id);
}

static void check_head(char *text)
{
    srv_framing framing = {0};
    tally t = {0};
    char *first = strsep(&text, "\n");
    const char *method = strsep(&first, " ");
    const char *path = first ? strsep(&first, " ") : "";
    const char *version = first ? first : "";
    for (char *line = strsep(&text, "\n"); line; line = strsep(&text, "\n")) {
        char *value = strchr(line, ':');
        if (!value)
            continue;
        *value++ = '\0';
        value += strspn(value, " ");
        srv_framing_note(&framing, line, value);
        count(&t, line, value);
        check_ids(value);
        check_said(SRV_PROBLEM_MEDIA_TYPE, value, path);
    }
    check_framing(&framing, &t, version);
    check_route(method, path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    check_head(text);
    free(text);
    return 0;
}
