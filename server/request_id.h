/* What ties one request's answer, log line and trace together: X-Request-Id and W3C traceparent. */
#ifndef SERVER_REQUEST_ID_H
#define SERVER_REQUEST_ID_H

#include <stdbool.h>

enum {
    SRV_REQUEST_ID_MAX = 128 /* characters of an id that is taken over */
};

typedef struct srv_request_id {
    char text[SRV_REQUEST_ID_MAX + 1];
} srv_request_id;

/* Take over the client's X-Request-Id when it is 1..128 characters of A-Za-z0-9._- and make a fresh
 * id of 32 hex digits otherwise. `header` may be NULL. */
void srv_request_id_set(srv_request_id *id, const char *header);

enum {
    SRV_UNIQUE_BYTES = 16
};

/* What a fresh id is made of when the kernel gives no random bytes: clocks and the thread's number.
 * Never the same twice in one process, and as good as never in two; but, unlike random bytes, it
 * can be guessed. */
void srv_unique_bytes(unsigned char bytes[SRV_UNIQUE_BYTES]);

/* The ids of a traceparent header, lowercase hex. */
typedef struct srv_trace {
    char trace_id[33];
    char parent_id[17];
} srv_trace;

/* Read a traceparent header (W3C Trace Context, section 3.2); `header` may be NULL. False, and both
 * ids empty, when there is none or it is malformed. */
bool srv_trace_parse(srv_trace *trace, const char *header);

#endif
