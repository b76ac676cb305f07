/* What a whole request is predicted to take: reading, computing and printing. */
#ifndef SERVER_COST_FORECAST_H
#define SERVER_COST_FORECAST_H

#include "attn/program.h"
#include "server/cost/transfer.h"
#include "server/server.h"

typedef struct srv_forecast {
    double read_ns, compute_ns, print_ns; /* processor time, all workers together */
    double program_ns;                    /* compute_ns as it was before the correction */
    double wall_ns;                       /* of the whole, on workers that do nothing else */
} srv_forecast;

/* Of a body of so many bytes, before anything is known of it. */
double srv_forecast_read_ns(const srv_server *server, bool json, double bytes);

/* By the rates, and for the program by what requests of its backend and length were measured to
 * take. Any thread. */
srv_forecast srv_forecast_make(const srv_server *server, const srv_transfer *transfer,
                               const attn_program *program, const char *backend, int64_t n);

#endif
