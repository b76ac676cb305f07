/* Measuring the rates. Each has a small program of the real steps (experiments.c): the rate is what
 * the program takes beyond what the other rates explain, over how often the program's own
 * prediction counts it. So what a plan counts is what was measured.
 *
 * The counts make a system of equations, one a rate, which is solved by a few rounds of
 * substitution: every program is chosen so that its own rate weighs most in it. */
#include "experiments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RUNS = 7,    /* of a program; the best is taken, since noise only ever adds */
    ROUNDS = 10, /* of substitution */
    RATES = sizeof(attn_rates) / sizeof(double),
};
/* Time for a program's runs, unless a single one takes longer. */
#define MOST_NS 20e6
/* Of its fallback that a rate is at least, whatever noise made of it. */
#define LEAST_PART 0.01

/* CPU time, so that whoever else is on the core does not count. */
static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double *rate_at(attn_rates *rates, size_t offset)
{
    return (double *)(void *)((char *)rates + offset);
}

static attn_status run_phase(const attn_program *program, const attn_frame *frame, int phase,
                             void *scratch)
{
    attn_status status = ATTN_OK;
    int64_t tiles = attn_program_phase(program, phase).tiles;
    for (int64_t t = 0; t < tiles && status == ATTN_OK; t++) {
        attn_arena arena;
        attn_arena_init(&arena, scratch, attn_program_scratch_bytes(program));
        status = attn_program_run(program, frame, phase, t, &arena);
    }
    return status;
}

/* The best time of the phase out of a few runs of all up to it. */
static attn_status time_phase(const attn_program *program, const attn_frame *frame, int phase,
                              void *scratch, double *best_ns)
{
    attn_status status = ATTN_OK;
    double first_ns = now_ns(), took_ns = 0;
    *best_ns = INFINITY;
    for (int run = 0; run < RUNS && status == ATTN_OK; run++) {
        for (int p = 0; p <= phase && status == ATTN_OK; p++) {
            double start_ns = now_ns();
            status = run_phase(program, frame, p, scratch);
            took_ns = now_ns() - start_ns;
        }
        *best_ns = fmin(*best_ns, took_ns);
        if (now_ns() - first_ns > MOST_NS)
            break;
    }
    return status;
}

static attn_status measure(const attn_experiment *x, const attn_lab *lab,
                           const attn_machine *machine, attn_frame frame, double *best_ns,
                           attn_error *error)
{
    attn_program *program;
    attn_status status = x->build(x, lab, machine, &program, error);
    if (status != ATTN_OK)
        return status;
    size_t shared = attn_arena_round(attn_program_shared_bytes(program) + 1);
    size_t scratch = attn_arena_round(attn_program_scratch_bytes(program) + 1);
    float *memory = aligned_alloc(ATTN_ALIGN, shared + scratch);
    if (memory) {
        frame.data[ATTN_ARRAY_SHARED] = memory;
        status = time_phase(program, &frame, x->phase, (char *)memory + shared, best_ns);
    }
    free(memory);
    attn_program_close(program);
    return memory ? status
                  : attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to measure rates in");
}

/* How often the experiment's prediction counts a rate. */
static attn_status count_rate(const attn_experiment *x, const attn_lab *lab, attn_machine machine,
                              size_t rate, double *count, attn_error *error)
{
    attn_program *program;
    machine.rates = (attn_rates){0};
    *rate_at(&machine.rates, rate) = 1;
    attn_status status = x->build(x, lab, &machine, &program, error);
    if (status != ATTN_OK)
        return status;
    attn_phase phase = attn_program_phase(program, x->phase);
    *count = (double)phase.tiles * phase.tile_ns;
    attn_program_close(program);
    return ATTN_OK;
}

/* counts[i][j]: rate j in experiment i. */
static attn_status count_rates(const attn_lab *lab, const attn_machine *machine,
                               double counts[RATES][RATES], attn_error *error)
{
    attn_status status = ATTN_OK;
    for (int i = 0; i < RATES; i++)
        for (int j = 0; j < RATES && status == ATTN_OK; j++)
            status = count_rate(&attn_experiments[i], lab, *machine, attn_experiments[j].rate,
                                &counts[i][j], error);
    return status;
}

/* Each rate in turn from its own program's time, the others being what they are. */
static void solve(double counts[RATES][RATES], const double took_ns[RATES], attn_rates *rates)
{
    attn_rates fallback = attn_rates_default();
    for (int turn = 0; turn < ROUNDS * RATES; turn++) {
        int i = turn % RATES;
        double rest_ns = took_ns[i];
        for (int j = 0; j < RATES; j++)
            if (j != i)
                rest_ns -= counts[i][j] * *rate_at(rates, attn_experiments[j].rate);
        double least = LEAST_PART * *rate_at(&fallback, attn_experiments[i].rate);
        *rate_at(rates, attn_experiments[i].rate) = fmax(rest_ns / counts[i][i], least);
    }
}

/* Numbers from -1 to 1 in an order that no branch predictor learns. */
static void fill(float *array)
{
    uint32_t bits = 1;
    for (int i = 0; i < ATTN_EXPERIMENT_FLOATS; i++) {
        bits = bits * 1664525 + 1013904223;
        array[i] = (float)(int32_t)bits * 0x1p-31F;
    }
}

static attn_status run_experiments(attn_machine *machine, float *memory, attn_error *error)
{
    attn_lab lab;
    attn_frame frame = {.row = 0};
    double took_ns[RATES], counts[RATES][RATES];
    attn_rates rates = attn_rates_default();
    attn_status status = ATTN_OK;
    for (int a = 0; a <= ATTN_ARRAY_SHARED; a++, memory += ATTN_EXPERIMENT_FLOATS) {
        frame.data[a] = memory; /* that of SHARED holds the weights */
        fill(memory);
    }
    attn_lab_init(&lab, frame.data[ATTN_ARRAY_SHARED], memory);
    for (int i = 0; i < RATES && status == ATTN_OK; i++)
        status = measure(&attn_experiments[i], &lab, machine, frame, &took_ns[i], error);
    if (status == ATTN_OK)
        status = count_rates(&lab, machine, counts, error);
    if (status != ATTN_OK)
        return status;
    solve(counts, took_ns, &rates);
    machine->rates = rates;
    return ATTN_OK;
}

attn_status attn_machine_calibrate(attn_machine *machine, attn_error *error)
{
    size_t floats = (size_t)ATTN_ARRAYS * ATTN_EXPERIMENT_FLOATS + attn_lab_scan_floats();
    float *memory = aligned_alloc(ATTN_ALIGN, attn_arena_round(floats * sizeof *memory));
    if (!memory)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to measure rates in");
    attn_status status = run_experiments(machine, memory, error);
    free(memory);
    return status;
}
