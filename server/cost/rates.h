/* What the daemon's own parts of a request take: the rates beside attn/rates.h. */
#ifndef SERVER_COST_RATES_H
#define SERVER_COST_RATES_H

#include "server/executor.h"

typedef struct srv_rates {
#define RATE(member, fallback, what) double member;
#include "server/cost/rates.def"
#undef RATE
} srv_rates;

/* Those of a machine that nobody measured. */
srv_rates srv_rates_default(void);

/* Measure them, the executor's on the executor, which has nothing else to do: a few milliseconds.
 * ATTN_NO_MEMORY leaves them as they were. */
attn_status srv_rates_measure(srv_rates *rates, srv_executor *executor, int workers,
                              attn_error *error);

#endif
