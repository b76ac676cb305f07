/* Rates that nobody measured, and measuring what the executor takes. */
#include "server/cost/rates.h"

#include "server/bench/crew.h"
#include "server/clock.h"
#include "server/cost/codec_rates.h"

#include <math.h>

enum {
    RUNS = 7,     /* the best is taken, since noise only ever adds */
    PHASES = 200, /* a run */
    SPINS = 20,
    SPIN_NS = 50000,
};
#define LEAST_NS 0.01 /* of any rate, whatever noise made of it */

srv_rates srv_rates_default(void)
{
    return (srv_rates){
#define RATE(member, fallback, what) .member = fallback,
#include "server/cost/rates.def"
#undef RATE
    };
}

static attn_status run_nothing(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    (void)context;
    (void)phase;
    (void)tile;
    (void)scratch;
    return ATTN_OK;
}

static attn_status run_spin(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    int64_t end_ns = srv_now_ns() + SPIN_NS;
    while (srv_now_ns() < end_ns)
        ;
    return run_nothing(context, phase, tile, scratch);
}

/* Phases of so many tiles each; of each figure the best. */
static srv_bench_result best_of(srv_executor *executor, int tiles, int phases,
                                attn_status (*run)(const void *, int, int64_t, attn_arena *))
{
    const attn_phase phase = {"measure", tiles, 1};
    const srv_bench_work work = {.run = run, .phases = &phase, .phase_count = 1, .rounds = phases};
    srv_bench_result best = {.ns = INFINITY, .busy_ns = INFINITY};
    for (int i = 0; i < RUNS; i++) {
        srv_bench_result result = srv_bench_run(executor, &work);
        best.ns = fmin(best.ns, result.ns);
        best.busy_ns = fmin(best.busy_ns, result.busy_ns);
    }
    return best;
}

/* A phase of one tile wakes nobody; one of a tile a worker ends when the last has woken. */
static void measure_executor(srv_rates *rates, srv_executor *executor, int workers)
{
    srv_bench_result alone = best_of(executor, 1, PHASES, run_nothing);
    rates->tile_ns = alone.busy_ns;
    rates->barrier_ns = alone.ns - alone.busy_ns;
    srv_bench_result together = best_of(executor, workers, SPINS, run_spin);
    rates->wake_ns = together.ns - SPIN_NS - alone.ns;
}

attn_status srv_rates_measure(srv_rates *rates, srv_executor *executor, int workers,
                              attn_error *error)
{
    srv_rates measured = srv_rates_default();
    attn_status status = srv_codec_rates_measure(&measured, executor);
    if (status != ATTN_OK)
        return attn_error_set(error, status, NULL, "no memory to measure reading and printing in");
    measure_executor(&measured, executor, workers);
#define RATE(member, fallback, what) measured.member = fmax(measured.member, LEAST_NS);
#include "server/cost/rates.def"
#undef RATE
    *rates = measured;
    return ATTN_OK;
}
