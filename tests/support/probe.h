/* Jobs for tests of the executor. Gates stand where a sleep would be, so that nothing depends on
 * how fast the machine is. */
#ifndef TESTS_PROBE_H
#define TESTS_PROBE_H

#include "server/executor.h"

#include <semaphore.h>
#include <stdatomic.h>

enum {
    MAX_PHASES = 6,
    MAX_TILES = 512,
    WORKER_COUNTS = 4
};

extern const int worker_counts[WORKER_COUNTS];

/* An executor; without it the test ends. */
srv_executor *probe_executor(int workers);

/* A job that watches over its own rules. The hooks are optional. */
typedef struct probe {
    srv_job job; /* first: the callbacks get this pointer */
    int phase_count;
    int64_t tiles[MAX_PHASES];
    double tile_ns;
    attn_status (*tile_hook)(struct probe *probe, int phase, int64_t tile, attn_arena *scratch);
    void (*next_hook)(struct probe *probe);
    void (*done_hook)(struct probe *probe);
    void *user;
    sem_t *entered, *gate; /* for hooks that stop at a gate */

    atomic_int phase;  /* running; -1 before the first */
    atomic_int inside; /* callbacks of any kind */
    atomic_int violations, tiles_run, next_calls, done_calls;
    atomic_int seen[MAX_PHASES][MAX_TILES];
    sem_t done;
} probe;

/* Of phases of so many tiles; of one. Without memory the test ends. */
probe *probe_new(int phase_count, const int64_t *tiles);
probe *probe_flat(int64_t tiles);

/* Wait until the job is over, then check how it ended and how many tiles ran. */
void probe_wait(probe *p, attn_status status, int tiles_run);

/* Check that no rule was broken, and free it. */
void probe_free(probe *p);

/* Both. */
void probe_end(probe *p, attn_status status, int tiles_run);

void probe_await(sem_t *sem);

/* Hooks: a tile says that it is there and waits until it may go on; the tiles of a phase wait for
 * each other. */
attn_status probe_stop_at_gate(probe *p, int phase, int64_t tile, attn_arena *scratch);
attn_status probe_meet(probe *p, int phase, int64_t tile, attn_arena *scratch);

/* A job whose one tile keeps a worker busy until the gate opens. */
typedef struct probe_holder {
    probe *probe;
    sem_t entered, gate;
} probe_holder;

void probe_hold(probe_holder *h, srv_executor *executor);
void probe_release(probe_holder *h);

#endif
