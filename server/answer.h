/* An answer on its way out: status, a few headers, and a body in parts that are sent end to end
 * without being joined. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "server/problem.h"
#include "server/text.h"

#include <stdbool.h>
#include <stddef.h>

/* The media type of most answers and of most bodies. */
#define SRV_JSON_TYPE "application/json"

typedef struct srv_part {
    char *data; /* owned, malloc'ed */
    size_t length;
} srv_part;

typedef struct srv_answer {
    int status; /* 0: there is none yet */
    const char *content_type;
    const char *problem_type; /* of a refusal, else NULL */
    char allow[64];           /* Allow; "" for none */
    char server_timing[256];  /* Server-Timing; "" for none */
    int retry_after_s;        /* Retry-After; 0 for none */
    srv_part *parts;          /* owned */
    size_t part_count, part_room;
} srv_answer;

/* Take over `data`, also when it cannot be kept: false then, or when data is NULL. */
bool srv_answer_add(srv_answer *answer, char *data, size_t length);

/* The same with a finished text, which becomes empty; false when an append to it failed. */
bool srv_answer_add_text(srv_answer *answer, srv_text *text);

/* A whole answer from one text, which becomes empty. Turns into a bodyless 503 without memory. */
void srv_answer_text(srv_answer *answer, int status, const char *content_type, srv_text *text);

/* A refusal in the shape of the surface that `path` belongs to, "/v1" or "/v2". */
void srv_answer_problem(srv_answer *answer, const srv_problem *problem, const char *path,
                        const char *request_id);

size_t srv_answer_bytes(const srv_answer *answer);

/* Free the parts and leave an empty answer. */
void srv_answer_free(srv_answer *answer);

#endif
