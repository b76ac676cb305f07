/* What a whole request is predicted to take: reading, computing and printing. */
#ifndef SERVER_COST_FORECAST_H
#define SERVER_COST_FORECAST_H

#include "attn/program.h"
#include "server/cost/transfer.h"
#include "server/server.h"

/* Processor time, all workers together. */
typedef struct srv_forecast {
    double rates_ns[SRV_STAGES]; /* by the rates alone */
    double ns[SRV_STAGES];       /* corrected by what requests of the kind were measured to take */
    double wall_ns;              /* of the whole on the wall, when workers do nothing else */
} srv_forecast;

/* Of a body of so many bytes, before anything is known of it. */
double srv_forecast_read_ns(const srv_server *server, bool json, double bytes);

/* The kind whose factor the request's stage is multiplied by. `backend` is static. */
srv_kind srv_forecast_kind(const srv_transfer *transfer, srv_stage stage, const char *backend);

/* The daemon's workers, all of them free. */
attn_crew srv_forecast_crew(const srv_server *server);

/* Of a request of length n. Any thread. */
srv_forecast srv_forecast_make(const srv_server *server, const srv_transfer *transfer,
                               const attn_program *program, const char *backend, int64_t n);

#endif
