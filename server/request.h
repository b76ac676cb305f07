/* One HTTP request, from its first header to its last byte out. Lives on the loop thread; while a
 * job runs, the job's workers own what the job was given. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "server/answer.h"
#include "server/budget.h"
#include "server/executor.h"
#include "server/request_id.h"
#include "server/routes.h"
#include "server/server.h"

enum {
    SRV_MEASURED_MAX = 8
};

/* A backend's answer held against exact attention. */
typedef struct srv_measured {
    const char *backend;
    int64_t rows;          /* of the answer that were sampled */
    double relative_error; /* of those, in L2 */
} srv_measured;

/* Processor time that the stages took and that the rates alone say they take, and what was
 * predicted of them all. All 0 where several programs were tried. */
typedef struct srv_account_cost {
    srv_kind kind[SRV_STAGES];
    double busy_ns[SRV_STAGES], rates_ns[SRV_STAGES];
    double predicted_ns;
} srv_account_cost;

/* What is known about the work, for the log line and the metrics; filled by the endpoint. */
typedef struct srv_account {
    const char *backend, *rule;             /* static strings; NULL: no backend ran */
    const char *encoding, *answer_encoding; /* "json" or "safetensors" */
    int64_t n;                              /* longest valid key count */
    int64_t tokens;                         /* query rows answered */
    double parse_s, queue_s, compute_s, serialize_s;
    srv_account_cost cost;
    size_t workspace_bytes;
    srv_measured measured[SRV_MEASURED_MAX]; /* in the order in which they were tried */
    int measured_count;
} srv_account;

enum {
    SRV_PATH_BYTES = 256 /* longer ones are cut; no route is that long */
};

typedef enum srv_format {
    SRV_FORMAT_NONE, /* a route that takes no body */
    SRV_FORMAT_JSON,
    SRV_FORMAT_SAFETENSORS,
} srv_format;

/* "json" or "safetensors", as metrics spell it. */
const char *srv_format_name(srv_format format);

/* One parameter of the query string, decoded. */
typedef struct srv_pair {
    const char *name, *value;
} srv_pair;

typedef struct srv_request {
    srv_server *server;
    const srv_route *route; /* NULL: refused before one was found */
    char method[16], path[SRV_PATH_BYTES];
    srv_request_id id;
    srv_trace trace;
    int64_t arrived_ns, received_ns; /* first header seen, body complete */
    srv_format format, wanted;       /* of the body, of the answer */
    srv_pair *query;                 /* owned; what they point to lives as long as the request */
    int query_count;
    char *body_block; /* owned */
    char *body;       /* in body_block; zero bytes follow body_length */
    size_t body_length, body_room;
    srv_share share;  /* of the memory budget */
    size_t bytes_out; /* of the answer's body */
    srv_answer answer;
    srv_account account;
    srv_job *job;                 /* while work runs; part of `work` */
    void *work;                   /* the endpoint's */
    void (*end_work)(void *work); /* on the loop thread, after the job: settle the answer, free */
    bool accepted;                /* handed to its endpoint: draining waits for it */
    bool left;                    /* the client went away while the job ran */
    bool drained;                 /* the time to drain was over before the job */

    struct srv_request *next_finished;               /* the loop's, while the job's end is news */
    struct srv_request *waiting_prev, *waiting_next; /* the loop's, while the job runs */
    struct srv_watch *watch; /* the loop's, notices that the client leaves */
} srv_request;

/* Answer with a refusal. */
void srv_request_refuse(srv_request *request, srv_problem problem);

/* The work has begun, and srv_loop_finished will tell its end. The job is, will be, or has been
 * with the executor: it may be cancelled. */
void srv_request_await(srv_request *request, srv_job *job, void *work, void (*end_work)(void *));

/* The same, and the job goes to the executor. */
void srv_request_start(srv_request *request, srv_job *job, void *work, void (*end_work)(void *));

/* The body is read and nothing points into it any more. Any thread that owns the request. */
void srv_request_drop_body(srv_request *request);

/* The job is over: settle the answer and free the work. */
void srv_request_end_work(srv_request *request);

#endif
