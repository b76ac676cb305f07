/* A request as http.c keeps it: what libmicrohttpd adds to an srv_request. Shared by the http_*.c
 * files alone. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include "server/http_check.h"
#include "server/peers.h"
#include "server/request.h"

struct MHD_Connection;

typedef struct srv_exchange {
    srv_request request; /* first: resuming gets the exchange back from it */
    struct MHD_Connection *connection;
    srv_peer *peer; /* NULL: no timers */
    srv_framing framing;
    bool dispatched; /* the endpoint has been called, or the refusal made */
    bool answered;
    bool unread;       /* answered before the body had come */
    bool refused_late; /* `late` is to be answered once the body has been dropped */
    srv_problem late;
    size_t lead;      /* bytes left free before the body, to align what lies in it */
    uint64_t dropped; /* bytes of body */
} srv_exchange;

/* Take a piece of the body, or drop it when the request is refused already. False ends the
 * connection: too much of a refused body came. */
bool srv_exchange_receive(srv_exchange *x, const char *data, size_t size);

/* After the last piece: zero padding behind the body. False: refused, see `late`. */
bool srv_exchange_close_body(srv_exchange *x);

/* Queue request->answer. False ends the connection. */
bool srv_exchange_send(srv_exchange *x);

/* The route that a request is counted under. */
const char *srv_exchange_route(const srv_exchange *x);

/* Count a request by the status of its answer, sent or not. */
void srv_exchange_count(const srv_exchange *x);

/* The log line of a request that is over. */
void srv_exchange_log(const srv_exchange *x, double seconds);

#endif
