/* Sums over the stages of a request: processor time, and time on the wall when every worker is
 * free. */
#include "server/cost/forecast.h"

static double read_ns(const srv_server *server, const srv_transfer *t)
{
    const srv_rates *rates = &server->cost.rates;
    return (t->json_in ? rates->read_fields_ns : rates->read_header_ns) +
           t->number_bytes * rates->read_number_byte_ns +
           t->base64_bytes * rates->read_base64_byte_ns + t->stored_floats * rates->check_float_ns +
           t->converted_floats * server->machine.rates.widen_ns +
           (double)t->slices * rates->tile_ns;
}

static double print_ns(const srv_rates *rates, const srv_transfer *t)
{
    return t->out_floats * rates->check_float_ns + t->number_floats * rates->print_number_ns +
           t->base64_floats * rates->print_base64_ns + (double)t->pieces * rates->tile_ns;
}

double srv_forecast_read_ns(const srv_server *server, bool json, double bytes)
{
    const srv_transfer transfer = {.json_in = json,
                                   .number_bytes = json ? bytes : 0,
                                   .stored_floats = json ? 0 : bytes / sizeof(float)};
    return read_ns(server, &transfer);
}

srv_kind srv_forecast_kind(const srv_transfer *t, srv_stage stage, const char *backend)
{
    const char *what = backend;
    if (stage != SRV_STAGE_COMPUTE)
        what = (stage == SRV_STAGE_READ ? t->json_in : t->json_out) ? "json" : "safetensors";
    return (srv_kind){.stage = stage, .what = what, .model = t->model};
}

attn_crew srv_forecast_crew(const srv_server *server)
{
    const srv_rates *rates = &server->cost.rates;
    return (attn_crew){.workers = server->workers,
                       .pace = 1,
                       .tile_ns = rates->tile_ns,
                       .barrier_ns = rates->barrier_ns,
                       .wake_ns = rates->wake_ns};
}

/* Processor time of a program by the rates. */
static double program_ns(const srv_server *server, const attn_program *program)
{
    const attn_crew one = {.workers = 1, .pace = 1, .tile_ns = server->cost.rates.tile_ns};
    return attn_program_ns(program, &one);
}

/* Time on the wall of printing, which takes `ns` in all, handing out included. */
static double printing_ns(const srv_server *server, const srv_transfer *t, double ns)
{
    attn_crew crew = srv_forecast_crew(server);
    const attn_phase print = {"print", t->pieces, ns / (double)t->pieces};
    crew.tile_ns = 0;
    return attn_phase_ns(&print, &crew);
}

srv_forecast srv_forecast_make(const srv_server *server, const srv_transfer *transfer,
                               const attn_program *program, const char *backend, int64_t n)
{
    double factor[SRV_STAGES];
    attn_crew crew = srv_forecast_crew(server);
    srv_forecast f = {.rates_ns = {[SRV_STAGE_READ] = read_ns(server, transfer),
                                   [SRV_STAGE_COMPUTE] = program_ns(server, program),
                                   [SRV_STAGE_PRINT] = print_ns(&server->cost.rates, transfer)}};
    for (srv_stage s = 0; s < SRV_STAGES; s++) {
        factor[s] = srv_correction_factor(&server->cost.correction,
                                          srv_forecast_kind(transfer, s, backend), n);
        f.ns[s] = f.rates_ns[s] * factor[s];
    }
    crew.pace = factor[SRV_STAGE_COMPUTE];
    /* Slices follow one another. */
    f.wall_ns = f.ns[SRV_STAGE_READ] + (double)transfer->slices * crew.barrier_ns +
                attn_program_ns(program, &crew) +
                printing_ns(server, transfer, f.ns[SRV_STAGE_PRINT]);
    return f;
}
