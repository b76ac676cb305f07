/* What the whole daemon shares; main owns it, everyone else borrows it. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "attn/machine.h"
#include "server/budget.h"
#include "server/config.h"
#include "server/cost/cost.h"
#include "server/executor.h"
#include "server/experience.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/peers.h"

typedef struct srv_server {
    srv_config config;
    attn_machine machine;
    srv_cost cost;
    int workers;
    srv_budget budget; /* what requests may take together */
    srv_executor *executor;
    srv_metrics *metrics; /* loop thread only */
    srv_log log;
    struct srv_registry *registry; /* of models */
    srv_experience experience;     /* how far their backends were from exact attention */
    struct srv_loop *loop;
    /* Loop thread only. */
    bool draining;
    bool drained;      /* the time for accepted work is over: nothing is accepted any more */
    int64_t in_flight; /* requests begun and not yet answered */
    int64_t accepted;  /* of those, handed to an endpoint */
    int64_t jobs;      /* of those, not yet computed */
    srv_peers peers;
} srv_server;

#endif
