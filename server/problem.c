/* The table of refusals, and how the library's failures map to it. */
#include "server/problem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static const struct {
    int http;
    const char *type, *reason;
} problems[] = {
#define PROBLEM(id, http, type, reason) {http, type, reason},
#include "server/problem.def"
#undef PROBLEM
};

int srv_problem_http(srv_problem_id id)
{
    return problems[id].http;
}

const char *srv_problem_type(srv_problem_id id)
{
    return problems[id].type;
}

const char *srv_problem_reason(srv_problem_id id)
{
    return problems[id].reason;
}

srv_problem srv_problem_make(srv_problem_id id, const char *param, const char *format, ...)
{
    srv_problem problem = {.id = id};
    snprintf(problem.param, sizeof problem.param, "%s", param ? param : "");
    va_list args;
    va_start(args, format);
    vsnprintf(problem.message, sizeof problem.message, format, args);
    va_end(args);
    return problem;
}

static srv_problem_id id_of(attn_status status)
{
    switch (status) {
    case ATTN_MALFORMED:
        return SRV_PROBLEM_MALFORMED;
    case ATTN_INVALID:
        return SRV_PROBLEM_INVALID;
    case ATTN_UNSUPPORTED:
        return SRV_PROBLEM_UNSUPPORTED;
    case ATTN_INFEASIBLE:
        return SRV_PROBLEM_INFEASIBLE;
    case ATTN_NOT_FOUND:
        return SRV_PROBLEM_NOT_FOUND;
    case ATTN_NO_MEMORY:
        return SRV_PROBLEM_NO_MEMORY;
    case ATTN_NON_FINITE:
        return SRV_PROBLEM_NON_FINITE;
    case ATTN_CANCELLED:
        return SRV_PROBLEM_CANCELLED;
    case ATTN_DEADLINE:
        return SRV_PROBLEM_DEADLINE;
    case ATTN_OK:
    case ATTN_INTERNAL:
        break;
    }
    return SRV_PROBLEM_INTERNAL;
}

static const char *sentence_of(attn_status status)
{
    switch (status) {
    case ATTN_NO_MEMORY:
        return "the machine has no memory left for this request; try again later";
    case ATTN_CANCELLED:
        return "the request was cancelled";
    case ATTN_DEADLINE:
        return "the deadline passed before the answer was ready; give more time or send less";
    default:
        return "a fault of attnd's own; the log has this request's id";
    }
}

srv_problem srv_problem_from(attn_status status, const attn_error *error)
{
    bool told = error && error->message[0];
    return srv_problem_make(id_of(status), told ? error->param : "", "%s",
                            told ? error->message : sentence_of(status));
}
