/* Sums over the stages of a request: processor time, and time on the wall when every worker is
 * free. A phase is spread over the workers as far as it has tiles, and those that slept have to
 * wake. */
#include "server/cost/forecast.h"

static double read_ns(const srv_server *server, const srv_transfer *t)
{
    const srv_rates *rates = &server->cost.rates;
    return t->number_bytes * rates->read_number_byte_ns +
           t->base64_bytes * rates->read_base64_byte_ns + t->stored_floats * rates->check_float_ns +
           t->converted_floats * server->machine.rates.widen_ns;
}

static double print_ns(const srv_rates *rates, const srv_transfer *t)
{
    return t->out_floats * rates->check_float_ns + t->number_floats * rates->print_number_ns +
           t->base64_floats * rates->print_base64_ns;
}

double srv_forecast_read_ns(const srv_server *server, bool json, double bytes)
{
    const srv_transfer transfer = {.number_bytes = json ? bytes : 0,
                                   .stored_floats = json ? 0 : bytes / sizeof(float)};
    return read_ns(server, &transfer);
}

/* Time on the wall of a phase of `tiles` that take `ns` together. */
static double spread_ns(const srv_server *server, double tiles, double ns)
{
    double at_once = tiles < server->workers ? tiles : server->workers;
    double wake_ns = at_once > 1 ? server->cost.rates.wake_ns : 0;
    /* A phase that is over before the others have woken is one worker's. */
    double shared_ns = ns / at_once + wake_ns;
    return server->cost.rates.barrier_ns + (shared_ns < ns ? shared_ns : ns);
}

srv_forecast srv_forecast_make(const srv_server *server, const srv_transfer *transfer,
                               const attn_program *program, const char *backend, int64_t n)
{
    double factor = srv_correction_factor(&server->cost.correction, backend, n);
    double tile_ns = server->cost.rates.tile_ns;
    double slices = (double)transfer->slices, pieces = (double)transfer->pieces;
    srv_forecast f = {.read_ns = read_ns(server, transfer) + slices * tile_ns,
                      .print_ns = print_ns(&server->cost.rates, transfer) + pieces * tile_ns};
    f.wall_ns = f.read_ns + slices * server->cost.rates.barrier_ns;
    for (int p = 0; p < attn_program_phases(program); p++) {
        attn_phase phase = attn_program_phase(program, p);
        double tiles = (double)phase.tiles, ns = tiles * (phase.tile_ns + tile_ns);
        f.program_ns += ns;
        f.wall_ns += spread_ns(server, tiles, ns * factor);
    }
    f.compute_ns = f.program_ns * factor;
    if (pieces > 0)
        f.wall_ns += spread_ns(server, pieces, f.print_ns);
    return f;
}
