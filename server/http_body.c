/* Collecting a request's body: bounded by max_body_bytes and by the memory budget. */
#include "server/admission.h"
#include "server/attend/source.h"
#include "server/exchange.h"

#include <stdlib.h>
#include <string.h>

static void refuse_late(srv_exchange *x, srv_problem problem)
{
    srv_request *request = &x->request;
    x->refused_late = true;
    x->late = problem;
    srv_request_drop_body(request);
    request->body_length = 0;
    srv_share_resize(&request->share, &request->server->budget, 0);
}

/* Room for a body of `length` bytes. A body of known length is reserved for before it is sent; a
 * chunked one as it grows. */
static bool reserve(srv_exchange *x, size_t length)
{
    srv_request *request = &x->request;
    size_t bytes = srv_source_bound(request->format, length);
    srv_problem problem;
    if (bytes <= request->share.bytes)
        return true;
    if (srv_admit_bytes(request->server, &request->share, bytes, "the body", &problem))
        return true;
    refuse_late(x, problem);
    return false;
}

static bool grow(srv_exchange *x, size_t needed)
{
    srv_request *request = &x->request;
    if (needed <= request->body_room)
        return true;
    size_t length = x->framing.lengths ? (size_t)x->framing.length : 2 * request->body_room;
    if (length < needed)
        length = needed;
    if (!reserve(x, length))
        return false;
    char *block = realloc(request->body_block, length + SRV_SOURCE_MARGIN);
    if (!block) {
        refuse_late(x, srv_problem_from(ATTN_NO_MEMORY, NULL));
        return false;
    }
    request->body_block = block;
    request->body = block + x->lead;
    request->body_room = length;
    return true;
}

/* Requests without work have no use for a body. */
static bool keeps_body(const srv_exchange *x)
{
    return !x->refused_late && x->request.format != SRV_FORMAT_NONE;
}

bool srv_exchange_receive(srv_exchange *x, const char *data, size_t size)
{
    srv_request *request = &x->request;
    uint64_t most = (uint64_t)request->server->config.max_body_bytes;
    if (keeps_body(x) && request->body_length + size > most)
        refuse_late(x, srv_problem_make(SRV_PROBLEM_TOO_LARGE, NULL,
                                        "the body has more than %llu bytes, the limit "
                                        "(max_body_bytes); send less or raise the limit",
                                        (unsigned long long)most));
    if (request->body_length == 0)
        x->lead = srv_source_lead(request->format, data, size);
    if (keeps_body(x) && grow(x, request->body_length + size)) {
        memcpy(request->body + request->body_length, data, size);
        request->body_length += size;
        return true;
    }
    x->dropped += size;
    return x->dropped <= (uint64_t)request->server->config.max_discard_bytes;
}

bool srv_exchange_close_body(srv_exchange *x)
{
    srv_request *request = &x->request;
    /* The padding stands in the margin of every block; an empty body has none yet. */
    if (keeps_body(x) && grow(x, request->body_length > 0 ? request->body_length : 1))
        memset(request->body + request->body_length, 0, SRV_BODY_PADDING);
    return !x->refused_late;
}
