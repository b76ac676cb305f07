/* Sums over the stages of a request: processor time, and time on the wall when every worker is
 * free. A phase is spread over the workers as far as it has tiles, and those that slept have to
 * wake. */
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

/* Time on the wall of a phase of `tiles` that take `ns` together: on every worker that has a tile,
 * or on one, when that is over before the others wake. */
static double spread_ns(const srv_server *server, double tiles, double ns)
{
    double at_once = tiles < server->workers ? tiles : server->workers;
    double shared_ns = ns / at_once + (at_once > 1 ? server->cost.rates.wake_ns : 0);
    return server->cost.rates.barrier_ns + (shared_ns < ns ? shared_ns : ns);
}

/* The wall time of the program, each of its times multiplied by `factor`; and *rates_ns. */
static double program_wall_ns(const srv_server *server, const attn_program *program, double factor,
                              double *rates_ns)
{
    double wall_ns = 0;
    *rates_ns = 0;
    for (int p = 0; p < attn_program_phases(program); p++) {
        attn_phase phase = attn_program_phase(program, p);
        double tiles = (double)phase.tiles;
        double ns = tiles * (phase.tile_ns + server->cost.rates.tile_ns);
        *rates_ns += ns;
        wall_ns += spread_ns(server, tiles, ns * factor);
    }
    return wall_ns;
}

srv_forecast srv_forecast_make(const srv_server *server, const srv_transfer *transfer,
                               const attn_program *program, const char *backend, int64_t n)
{
    const srv_rates *rates = &server->cost.rates;
    double factor[SRV_STAGES];
    for (srv_stage s = 0; s < SRV_STAGES; s++)
        factor[s] = srv_correction_factor(&server->cost.correction,
                                          srv_forecast_kind(transfer, s, backend), n);
    srv_forecast f = {.rates_ns = {[SRV_STAGE_READ] = read_ns(server, transfer),
                                   [SRV_STAGE_PRINT] = print_ns(rates, transfer)}};
    double program_ns =
        program_wall_ns(server, program, factor[SRV_STAGE_COMPUTE], &f.rates_ns[SRV_STAGE_COMPUTE]);
    for (srv_stage s = 0; s < SRV_STAGES; s++)
        f.ns[s] = f.rates_ns[s] * factor[s];
    /* Slices follow one another. */
    f.wall_ns = f.ns[SRV_STAGE_READ] + (double)transfer->slices * rates->barrier_ns + program_ns +
                spread_ns(server, (double)transfer->pieces, f.ns[SRV_STAGE_PRINT]);
    return f;
}
