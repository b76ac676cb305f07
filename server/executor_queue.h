/* The executor's order of work, without threads or clocks: which tile of which job comes next.
 *
 * A free worker takes a tile of the job with the least predicted work remaining, which keeps the
 * mean waiting time lowest and lets a short request overtake a long one between two tiles. Alone
 * that rule would starve a long job under a stream of short ones, so jobs age, and age is counted
 * in picks, not in time, to keep the order a pure function of what was asked: after
 * SRV_PASSES_ALLOWED picks in a row that passed over the oldest job with something to do, the next
 * is its own. So the oldest always gets its share, ends, and leaves the place to the next; short
 * jobs are held up by one tile in sixteen at most.
 *
 * Background jobs stand behind all others, however old they are, and leave a worker free for those,
 * where there are two: whoever comes finds it idle. Among themselves they are served in order of
 * submission.
 *
 * Remaining work changes with every tile, so there is no heap: a pick walks the list. Admission
 * bounds it to a few hundred jobs, which is microseconds against a tile's quarter of a millisecond.
 *
 * The caller holds the executor's lock around every call. */
#ifndef SERVER_EXECUTOR_QUEUE_H
#define SERVER_EXECUTOR_QUEUE_H

#include "server/executor.h"

enum {
    SRV_PASSES_ALLOWED = 15,
    SRV_NO_TILE = -1 /* the job is at rest: ask its owner what follows, or tell it the end */
};

typedef struct srv_queue {
    srv_job *oldest, *newest; /* every job that is not over, in order of submission */
    int passes;               /* picks in a row that passed over the oldest */
    int64_t background_most;  /* tiles of background jobs that may run at once; 0 is taken for 1 */
} srv_queue;

/* Take in a job whose owner has filled its part. */
void srv_queue_add(srv_queue *queue, srv_job *job);

/* Forget a job that is at rest; it is over from here on. */
void srv_queue_remove(srv_queue *queue, srv_job *job);

/* Choose a job and hand out its next tile, or SRV_NO_TILE when it is at rest. NULL: nothing to do
 * now. Ends jobs that are past their deadline on the way. */
srv_job *srv_queue_pick(srv_queue *queue, int64_t now_ns, int64_t *tile);

srv_load srv_queue_load(const srv_queue *queue);

/* Nothing of the job runs, and there is no tile to hand out: it is at a barrier or at its end. */
bool srv_job_at_rest(const srv_job *job);

/* Keep `reason` unless the job is over or has ended for another one. */
void srv_job_stop(srv_job *job, attn_status reason);

/* Offer the tiles of `phase`, which next() has just described. */
void srv_job_begin(srv_job *job, const attn_phase *phase);

/* Take back a tile that was handed out, how it ended, and the scratch it used on `worker`. */
void srv_job_end_tile(srv_job *job, int64_t tile, attn_status status, int worker,
                      size_t peak_bytes);

#endif
