/* What attnd knows of what things take, beside the machine's own rates. */
#ifndef SERVER_COST_COST_H
#define SERVER_COST_COST_H

#include "attn/machine.h"
#include "server/cost/correction.h"
#include "server/cost/rates.h"
#include "server/log.h"

typedef struct srv_cost {
    srv_rates rates;
    srv_correction correction; /* learned from requests */
} srv_cost;

/* Nothing measured, nothing learned. */
void srv_cost_init(srv_cost *cost);

/* Fill the rates, the machine's too: read from `file` where it exists; else measured on the
 * executor, which has nothing else to do, and saved there. A file that cannot be written is a
 * warning; one that holds anything but rates an error. "" is no file. */
attn_status srv_cost_open(srv_cost *cost, attn_machine *machine, srv_executor *executor,
                          int workers, const char *file, srv_log *log, attn_error *error);

#endif
