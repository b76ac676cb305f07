/* What attnd knows of what things take, beside the machine's own rates. */
#ifndef SERVER_COST_COST_H
#define SERVER_COST_COST_H

#include "server/cost/correction.h"
#include "server/cost/rates.h"

typedef struct srv_cost {
    srv_rates rates;
    srv_correction correction; /* learned from requests */
} srv_cost;

#endif
