/* Measuring what reading, printing and the executor take, on texts and tiles made for it. */
#include "server/cost/rates.h"

#include "attn/dtype.h"
#include "server/bench/crew.h"
#include "server/clock.h"
#include "server/codec/body.h"
#include "server/codec/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 7, /* the best is taken, since noise only ever adds */
    ROWS = 256,
    COLUMNS = 64,
    FLOATS = ROWS * COLUMNS, /* one piece of output */
    PHASES = 200,            /* a run of the executor's */
    SPIN_NS = 50000,
};
_Static_assert(FLOATS <= SRV_OUTPUT_PIECE, "all floats are one piece");
#define LEAST_NS 0.01 /* of any rate, whatever noise made of it */

srv_rates srv_rates_default(void)
{
    return (srv_rates){
#define RATE(member, fallback, what) .member = fallback,
#include "server/cost/rates.def"
#undef RATE
    };
}

/* A body with one tensor, printed as the daemon prints, and read as it reads. */
typedef struct sample {
    char *text; /* owned; SRV_BODY_PADDING zero bytes follow */
    size_t length, value_length;
    double print_ns, read_ns; /* the best */
} sample;

static attn_status print_once(const srv_output *output, sample *s)
{
    static const char head[] = "{\"q\":";
    size_t length;
    int64_t start_ns = srv_thread_ns();
    char *value = srv_output_print(output, 0, &length);
    s->print_ns = fmin(s->print_ns, (double)(srv_thread_ns() - start_ns));
    free(s->text);
    s->text = value ? calloc(1, sizeof head + length + 1 + SRV_BODY_PADDING) : NULL;
    if (s->text) {
        memcpy(s->text, head, sizeof head - 1);
        memcpy(s->text + sizeof head - 1, value, length);
        s->text[sizeof head - 1 + length] = '}';
        s->length = sizeof head + length;
        s->value_length = length;
    }
    free(value);
    return s->text ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status read_once(sample *s)
{
    srv_body_step step = SRV_BODY_FAULT;
    int64_t start_ns = srv_thread_ns();
    srv_body *body = srv_body_open(s->text, s->length);
    if (body) {
        do
            step = srv_body_read(body, s->length, NULL);
        while (step == SRV_BODY_MORE);
    }
    s->read_ns = fmin(s->read_ns, (double)(srv_thread_ns() - start_ns));
    srv_body_close(body);
    return step == SRV_BODY_DONE ? ATTN_OK : ATTN_NO_MEMORY;
}

static attn_status measure_form(const float *data, srv_form form, sample *s)
{
    const srv_output output = {.data = data, .rank = 2, .dim = {ROWS, COLUMNS}, .form = form};
    attn_status status = ATTN_OK;
    *s = (sample){.print_ns = INFINITY, .read_ns = INFINITY};
    for (int run = 0; run < RUNS && status == ATTN_OK; run++) {
        status = print_once(&output, s);
        if (status == ATTN_OK)
            status = read_once(s);
    }
    free(s->text);
    return status;
}

static double check_ns(const float *data)
{
    double best_ns = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        int64_t start_ns = srv_thread_ns();
        size_t found = attn_first_non_finite(data, FLOATS);
        /* Used, so that it is computed. */
        best_ns = fmin(best_ns, (double)(srv_thread_ns() - start_ns) + (found < FLOATS));
    }
    return best_ns;
}

/* Numbers of as many digits as any, since computed ones have them. */
static void fill(float *data)
{
    uint32_t bits = 1;
    for (int i = 0; i < FLOATS; i++) {
        bits = bits * 1664525 + 1013904223;
        data[i] = (float)(int32_t)bits * 0x1p-30F;
    }
}

static attn_status measure_codec(srv_rates *rates)
{
    float *data = malloc(FLOATS * sizeof *data);
    sample numbers, base64;
    if (!data)
        return ATTN_NO_MEMORY;
    fill(data);
    attn_status status = measure_form(data, SRV_FORM_NESTED, &numbers);
    if (status == ATTN_OK)
        status = measure_form(data, SRV_FORM_BASE64, &base64);
    if (status == ATTN_OK) {
        rates->read_number_byte_ns = numbers.read_ns / (double)numbers.value_length;
        rates->read_base64_byte_ns = base64.read_ns / (double)base64.value_length;
        rates->print_number_ns = numbers.print_ns / FLOATS;
        rates->print_base64_ns = base64.print_ns / FLOATS;
        rates->check_float_ns = check_ns(data) / FLOATS;
    }
    free(data);
    return status;
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
    srv_bench_result together = best_of(executor, workers, PHASES / 10, run_spin);
    rates->wake_ns = together.ns - SPIN_NS - alone.ns;
}

attn_status srv_rates_measure(srv_rates *rates, srv_executor *executor, int workers,
                              attn_error *error)
{
    srv_rates measured = srv_rates_default();
    attn_status status = measure_codec(&measured);
    if (status != ATTN_OK)
        return attn_error_set(error, status, NULL, "no memory to measure reading and printing in");
    measure_executor(&measured, executor, workers);
#define RATE(member, fallback, what) measured.member = fmax(measured.member, LEAST_NS);
#include "server/cost/rates.def"
#undef RATE
    *rates = measured;
    return ATTN_OK;
}
