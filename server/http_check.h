/* What a request's headers must satisfy before anything else is looked at. */
#ifndef SERVER_HTTP_CHECK_H
#define SERVER_HTTP_CHECK_H

#include "server/problem.h"

#include <stdbool.h>
#include <stdint.h>

/* The headers that frame a body, counted as they come. */
typedef struct srv_framing {
    int hosts, lengths, codings;
    bool chunked;    /* the last transfer coding was exactly "chunked" */
    uint64_t length; /* Content-Length; UINT64_MAX when it is not a plain number */
} srv_framing;

void srv_framing_note(srv_framing *framing, const char *name, const char *value);

bool srv_framing_has_body(const srv_framing *framing);

/* Refuse what a proxy in front may frame differently (request smuggling, RFC 9112 section 6.3), a
 * missing Host, and a length over `most`. False, and the problem, when refused. */
bool srv_framing_check(const srv_framing *framing, const char *version, uint64_t most,
                       srv_problem *problem);

#endif
