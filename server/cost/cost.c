/* Where the rates come from when the daemon starts. */
#include "server/cost/cost.h"

#include "server/clock.h"
#include "server/cost/calibration.h"

#include <math.h>
#include <string.h>

void srv_cost_init(srv_cost *cost)
{
    memset(cost, 0, sizeof *cost);
    cost->rates = srv_rates_default();
}

static double gflops(double flop_ns)
{
    return round(1 / flop_ns);
}

static void tell(const srv_calibration *c, const char *file, bool measured, int64_t took_ns,
                 srv_log *log)
{
    const srv_log_field fields[] = {
        srv_log_string("file", file),
        srv_log_real("took_ms", (double)(took_ns / 1000) * 1e-3),
        srv_log_real("attend_gflops_per_core", gflops(c->machine.attend_flop_ns)),
        srv_log_real("product_gflops_per_core", gflops(c->machine.product_flop_ns)),
        srv_log_real("read_mb_per_s", round(1e3 / c->server.read_number_byte_ns)),
        srv_log_real("wake_us", round(c->server.wake_ns * 1e-2) * 0.1),
    };
    srv_log_event(log, SRV_LOG_INFO, measured ? "rates measured" : "rates read", fields,
                  sizeof fields / sizeof *fields);
}

attn_status srv_cost_open(srv_cost *cost, attn_machine *machine, srv_executor *executor,
                          int workers, const char *file, srv_log *log, attn_error *error)
{
    srv_calibration c;
    int64_t begun_ns = srv_now_ns();
    bool exists = srv_calibration_exists(file);
    attn_status status = exists ? srv_calibration_read(&c, file, machine->isa, error)
                                : srv_calibration_measure(&c, machine, executor, workers, error);
    if (status != ATTN_OK)
        return status;
    tell(&c, file, !exists, srv_now_ns() - begun_ns, log);
    attn_error unsaved = {0};
    if (file[0] && !exists && srv_calibration_save(&c, file, &unsaved) != ATTN_OK)
        srv_log_event(log, SRV_LOG_WARN, unsaved.message, NULL, 0);
    machine->rates = c.machine;
    cost->rates = c.server;
    return ATTN_OK;
}
