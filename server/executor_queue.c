/* Choosing the next tile; the header says by which rules and why. */
#include "server/executor_queue.h"

#include <assert.h>
#include <string.h>

static int64_t running(const srv_job *job)
{
    return job->progress.handed_out - job->progress.ended;
}

static bool has_tile(const srv_job *job)
{
    return job->status == ATTN_OK && job->progress.handed_out < job->progress.phase.tiles;
}

bool srv_job_at_rest(const srv_job *job)
{
    return !job->progress.asking && running(job) == 0 && !has_tile(job);
}

static bool overdue(const srv_job *job, int64_t now_ns)
{
    return job->deadline_ns != 0 && now_ns >= job->deadline_ns;
}

static double left_ns(const srv_job *job)
{
    const srv_job_progress *p = &job->progress;
    return (double)(p->phase.tiles - p->ended) * p->phase.tile_ns + p->beyond_ns;
}

void srv_queue_add(srv_queue *queue, srv_job *job)
{
    memset(&job->progress, 0, sizeof job->progress);
    job->status = ATTN_OK;
    job->started_ns = 0;
    job->busy_ns = 0;
    job->workspace_bytes = 0;
    job->progress.beyond_ns = job->remaining_ns;
    job->progress.older = queue->newest;
    *(queue->newest ? &queue->newest->progress.newer : &queue->oldest) = job;
    queue->newest = job;
}

void srv_queue_remove(srv_queue *queue, srv_job *job)
{
    srv_job *older = job->progress.older, *newer = job->progress.newer;
    assert(srv_job_at_rest(job));
    *(older ? &older->progress.newer : &queue->oldest) = newer;
    *(newer ? &newer->progress.older : &queue->newest) = older;
    job->progress.over = true;
}

static int64_t hand_out(srv_job *job, int64_t now_ns)
{
    if (!has_tile(job))
        return SRV_NO_TILE;
    if (job->started_ns == 0)
        job->started_ns = now_ns;
    return job->progress.handed_out++;
}

/* Nothing else can be done: go on with `job`, the oldest background job that has something to do
 * (NULL: there is none), unless `busy` tiles of such jobs are enough. */
static srv_job *pick_background(const srv_queue *queue, srv_job *job, int64_t busy, int64_t now_ns,
                                int64_t *tile)
{
    int64_t most = queue->background_most > 0 ? queue->background_most : 1;
    if (!job || (has_tile(job) && busy >= most))
        return NULL;
    *tile = hand_out(job, now_ns);
    return job;
}

srv_job *srv_queue_pick(srv_queue *queue, int64_t now_ns, int64_t *tile)
{
    srv_job *oldest = NULL, *least = NULL, *background = NULL;
    int64_t busy = 0;
    for (srv_job *job = queue->oldest; job; job = job->progress.newer) {
        busy += job->background ? running(job) : 0;
        if (!has_tile(job) && !srv_job_at_rest(job))
            continue;
        if (overdue(job, now_ns))
            srv_job_stop(job, ATTN_DEADLINE);
        if (job->status != ATTN_OK) {
            if (!srv_job_at_rest(job))
                continue;
            *tile = SRV_NO_TILE; /* an ended job waits for nobody: its client and memory do */
            return job;
        }
        if (job->background) {
            background = background ? background : job;
            continue;
        }
        if (!oldest)
            oldest = job;
        if (!least || left_ns(job) < left_ns(least))
            least = job;
    }
    if (!oldest)
        return pick_background(queue, background, busy, now_ns, tile);
    if (least == oldest || queue->passes == SRV_PASSES_ALLOWED) {
        queue->passes = 0;
        least = oldest;
    } else {
        queue->passes++;
    }
    *tile = hand_out(least, now_ns);
    return least;
}

srv_load srv_queue_load(const srv_queue *queue)
{
    srv_load load = {0};
    for (const srv_job *job = queue->oldest; job; job = job->progress.newer) {
        if (job->started_ns == 0)
            load.waiting++;
        else
            load.active++;
        load.remaining_ns += left_ns(job);
        load.background += job->background;
        load.background_ns += job->background ? left_ns(job) : 0;
    }
    return load;
}

void srv_job_stop(srv_job *job, attn_status reason)
{
    if (!job->progress.over && job->status == ATTN_OK)
        job->status = reason;
}

void srv_job_begin(srv_job *job, const attn_phase *phase)
{
    assert(phase->tiles >= 1);
    job->progress.phase = *phase;
    job->progress.handed_out = job->progress.ended = 0;
    job->progress.beyond_ns = job->remaining_ns;
}

void srv_job_end_tile(srv_job *job, int64_t tile, attn_status status, int worker, size_t peak_bytes)
{
    srv_job_progress *p = &job->progress;
    p->ended++;
    if (peak_bytes > p->peak_bytes[worker]) {
        job->workspace_bytes += peak_bytes - p->peak_bytes[worker];
        p->peak_bytes[worker] = peak_bytes;
    }
    /* Tiles go out in order, so every tile below the lowest that fails was handed out too, and its
     * failure is found whichever of them ends first. */
    if (status != ATTN_OK && (job->status == ATTN_OK || tile < p->failed_tile)) {
        job->status = status;
        p->failed_tile = tile;
    }
}
