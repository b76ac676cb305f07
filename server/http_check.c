/* Header checks that libmicrohttpd leaves to its user: it takes the first of two lengths, prefers
 * chunked over a length, and ignores codings that it does not know. */
#include "server/http_check.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static uint64_t length_of(const char *text)
{
    uint64_t length = 0;
    if (!*text)
        return UINT64_MAX;
    for (; *text; text++)
        if (!isdigit((unsigned char)*text) || __builtin_mul_overflow(length, 10, &length) ||
            __builtin_add_overflow(length, (uint64_t)(*text - '0'), &length))
            return UINT64_MAX;
    return length;
}

void srv_framing_note(srv_framing *framing, const char *name, const char *value)
{
    if (strcasecmp(name, "Host") == 0) {
        framing->hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        framing->lengths++;
        framing->length = length_of(value);
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        framing->codings++;
        framing->chunked = strcasecmp(value, "chunked") == 0;
    }
}

bool srv_framing_has_body(const srv_framing *framing)
{
    return framing->codings > 0 || (framing->lengths > 0 && framing->length > 0);
}

static bool refuse(srv_problem *problem, const char *header, const char *sentence)
{
    *problem = srv_problem_make(SRV_PROBLEM_MALFORMED, header, "%s: %s", header, sentence);
    return false;
}

bool srv_framing_check(const srv_framing *framing, const char *version, uint64_t most,
                       srv_problem *problem)
{
    if (framing->hosts > 1 || (framing->hosts == 0 && strcmp(version, "HTTP/1.1") == 0))
        return refuse(problem, "Host", "expected exactly one");
    if (framing->codings > 0 && strcmp(version, "HTTP/1.0") == 0)
        return refuse(problem, "Transfer-Encoding", "expected none in HTTP/1.0");
    if (framing->lengths > 0 && framing->codings > 0)
        return refuse(problem, "Transfer-Encoding",
                      "found beside Content-Length; send one of them");
    if (framing->lengths > 1)
        return refuse(problem, "Content-Length", "found more than one");
    if (framing->codings > 0 && (framing->codings > 1 || !framing->chunked))
        return refuse(problem, "Transfer-Encoding", "expected nothing but \"chunked\"");
    if (framing->lengths > 0 && framing->length == UINT64_MAX)
        return refuse(problem, "Content-Length", "expected a number of bytes");
    if (framing->length <= most)
        return true;
    *problem = srv_problem_make(SRV_PROBLEM_TOO_LARGE, "Content-Length",
                                "the body has %llu bytes, over the limit of %llu "
                                "(max_body_bytes); send less or raise the limit",
                                (unsigned long long)framing->length, (unsigned long long)most);
    return false;
}
