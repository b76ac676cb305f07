/* Refusals as HTTP spells them: status, type, the field at fault, a sentence. */
#ifndef SERVER_PROBLEM_H
#define SERVER_PROBLEM_H

#include "attn/status.h"

typedef enum srv_problem_id {
#define PROBLEM(id, http, type, reason) SRV_PROBLEM_##id,
#include "server/problem.def"
#undef PROBLEM
    SRV_PROBLEM_COUNT
} srv_problem_id;

typedef struct srv_problem {
    srv_problem_id id;
    int retry_after_s; /* when trying again may help; 0: unknown or pointless */
    char param[64];
    char message[320];
} srv_problem;

int srv_problem_http(srv_problem_id id);
const char *srv_problem_type(srv_problem_id id);

/* Label of attnd_requests_rejected_total, or "" when the refusal is not counted there. */
const char *srv_problem_reason(srv_problem_id id);

/* `param` may be NULL. */
srv_problem srv_problem_make(srv_problem_id id, const char *param, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a failure of the library is to a client. `error` may hold no sentence of its own. */
srv_problem srv_problem_from(attn_status status, const attn_error *error);

#endif
