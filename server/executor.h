/* The executor: worker threads that run jobs as phases of tiles.
 *
 * A job is whatever a request needs done: parse the body, compute, print the answer. Its owner
 * describes one phase at a time; the executor hands the phase's tiles to whichever worker is free,
 * waits for all of them, and asks for the next phase. It knows nothing else, so that one long
 * request never blocks a short one, and cancelling, deadlines and draining take effect between two
 * tiles, about a quarter of a millisecond apart. */
#ifndef SERVER_EXECUTOR_H
#define SERVER_EXECUTOR_H

#include "attn/arena.h"
#include "attn/plan.h"
#include "attn/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Debian's OpenBLAS has room for 64 calling threads and aborts beyond; some are left to others. */
enum {
    SRV_MAX_WORKERS = 48
};

typedef struct srv_executor srv_executor;
typedef struct srv_job srv_job;

/* How far a job is; the executor's own, guarded by its lock. */
typedef struct srv_job_progress {
    srv_job *older, *newer; /* in the queue */
    attn_phase phase;
    int64_t handed_out, ended; /* tiles of the phase, 0 <= ended <= handed_out <= phase.tiles */
    int64_t failed_tile;       /* the lowest that failed; 0, which none is below, when none did */
    double beyond_ns;          /* remaining_ns as it was at the barrier */
    bool asking;               /* a worker is inside next() */
    bool over;                 /* done() has been or is being called */
    size_t peak_bytes[SRV_MAX_WORKERS];
} srv_job_progress;

struct srv_job {
    /* Filled by the owner before submitting. The callbacks run on workers. */

    /* At a barrier, when nothing else of the job runs, and once before the first phase: describe
     * the next phase (tiles >= 1), or return false when the work is over. May set remaining_ns and
     * scratch_bytes anew. A failure in here is the owner's to remember before returning false. */
    bool (*next)(srv_job *job, attn_phase *phase);
    /* One tile of the current phase, on any worker, in any order. `scratch` lends exactly
     * scratch_bytes, rounded up to ATTN_ALIGN, whatever ran on the worker before. */
    attn_status (*run)(srv_job *job, int64_t tile, attn_arena *scratch);
    /* Exactly once, after everything else. The executor does not touch the job afterwards, so it
     * may be freed, or submitted again, by this call or by whomever it tells. */
    void (*done)(srv_job *job);
    bool background;      /* runs only while nothing else could, and never on all workers */
    double remaining_ns;  /* predicted work beyond the current phase */
    bool yields;          /* after each tile the CPU to whoever waits for it: the loop, clients */
    size_t scratch_bytes; /* what a tile needs; 0 when none */
    int64_t deadline_ns;  /* CLOCK_MONOTONIC; 0: none. Looked at whenever work could be handed
                             out; a job whose last tile has been handed out may still finish */

    /* Read by the owner in or after done(). */

    /* ATTN_OK, ATTN_CANCELLED, ATTN_DEADLINE, ATTN_NO_MEMORY when no scratch could be had, or what
     * run() said of the lowest tile that failed, which does not depend on the number of workers. */
    attn_status status;
    int64_t started_ns; /* CLOCK_MONOTONIC when the first tile was handed out; 0: none was */
    int64_t
        busy_ns; /* processor time that its tiles took, summed over workers; next() reads it too */
    size_t
        workspace_bytes; /* measured: the scratch peaks of all the workers that took part, summed */

    srv_job_progress progress; /* private to the executor */
};

typedef struct srv_load {
    int64_t waiting;      /* jobs of which no tile has been handed out yet */
    int64_t active;       /* the others that are not over */
    double remaining_ns;  /* predicted work of all of them */
    int64_t background;   /* those of them that are background jobs */
    double background_ns; /* and their part of the work, which holds up nobody else */
} srv_load;

/* Start `workers` threads, 1..SRV_MAX_WORKERS, and return when each is ready and OpenBLAS has given
 * it a buffer (attn_blas_init comes first). NULL: ATTN_INVALID or ATTN_NO_MEMORY, with a sentence.
 */
srv_executor *srv_executor_open(int workers, attn_error *error);

/* Wait until every job is over, end the threads and free. Not from a callback. NULL is fine. */
void srv_executor_close(srv_executor *executor);

/* Lend the job to the executor until its done(). Never blocks on work, never fails; any thread, a
 * done() included. */
void srv_executor_submit(srv_executor *executor, srv_job *job);

/* Hand out no more of the job; done() follows with ATTN_CANCELLED once its running callbacks have
 * returned. Any thread, as long as the caller knows that the job has not been freed; without effect
 * on a job that is over or has failed already. */
void srv_executor_cancel(srv_executor *executor, srv_job *job);

/* How many of so many workers may run tiles of background jobs at a time: one is left to others,
 * where there are two. */
int64_t srv_executor_background_workers(int64_t workers);

/* A snapshot for admission and metrics. */
srv_load srv_executor_load(srv_executor *executor);

#endif
