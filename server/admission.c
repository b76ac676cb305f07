/* The three bounds. Each refusal names the limit, what was found, and the key to change. */
#include "server/admission.h"

#include <math.h>

enum {
    LONGEST_RETRY_S = 600,
    BACKGROUND_PART = 8, /* one request in so many of the queue may be a background job */
};

/* Seconds until the work that is queued now should be done. */
static int retry_after_s(const srv_server *server, double remaining_ns)
{
    double seconds = ceil(remaining_ns * 1e-9 / server->workers);
    return seconds < 1 ? 1 : seconds > LONGEST_RETRY_S ? LONGEST_RETRY_S : (int)seconds;
}

static bool refuse(srv_problem *problem, srv_problem made, int after_s)
{
    *problem = made;
    problem->retry_after_s = after_s;
    return false;
}

bool srv_admit_cost(const srv_server *server, srv_problem *problem)
{
    srv_load load = srv_executor_load(server->executor);
    double remaining_ns = load.remaining_ns - load.background_ns;
    double waiting_ms = remaining_ns * 1e-6 / server->workers;
    if (waiting_ms <= (double)server->config.max_queue_cost_ms)
        return true;
    return refuse(problem,
                  srv_problem_make(SRV_PROBLEM_OVERLOADED, NULL,
                                   "%.0f ms of work are queued, over the limit of %lld "
                                   "(max_queue_cost_ms); try again later",
                                   waiting_ms, (long long)server->config.max_queue_cost_ms),
                  retry_after_s(server, remaining_ns));
}

bool srv_admit_job(const srv_server *server, srv_problem *problem)
{
    if (server->jobs < server->config.max_queue)
        return srv_admit_cost(server, problem);
    double remaining_ns = srv_executor_load(server->executor).remaining_ns;
    return refuse(problem,
                  srv_problem_make(SRV_PROBLEM_OVERLOADED, NULL,
                                   "%lld requests are queued, the limit (max_queue); try again "
                                   "later",
                                   (long long)server->jobs),
                  retry_after_s(server, remaining_ns));
}

bool srv_admit_background(const srv_server *server, srv_problem *problem)
{
    srv_load load = srv_executor_load(server->executor);
    int64_t most = server->config.max_queue / BACKGROUND_PART;
    most = most < 1 ? 1 : most;
    if (load.background < most)
        return true;
    return refuse(problem,
                  srv_problem_make(SRV_PROBLEM_OVERLOADED, NULL,
                                   "%lld analyses are queued, the limit (max_queue / %d); try "
                                   "again later",
                                   (long long)load.background, BACKGROUND_PART),
                  retry_after_s(server, load.remaining_ns));
}

size_t srv_countable_bytes(double bytes)
{
    return bytes < 0x1p60 ? (size_t)bytes : (size_t)1 << 60;
}

bool srv_admit_bytes(srv_server *server, srv_share *share, size_t bytes, const char *what,
                     srv_problem *problem)
{
    size_t limit = server->budget.limit;
    if (bytes > limit)
        return refuse(problem,
                      srv_problem_make(SRV_PROBLEM_TOO_LARGE, NULL,
                                       "%s may need %zu bytes, over the limit of %zu "
                                       "(memory_limit_bytes); send less or raise the limit",
                                       what, bytes, limit),
                      0);
    if (srv_share_resize(share, &server->budget, bytes))
        return true;
    double remaining_ns = srv_executor_load(server->executor).remaining_ns;
    return refuse(problem,
                  srv_problem_make(SRV_PROBLEM_NO_ROOM, NULL,
                                   "%s may need %zu bytes, and other requests hold %zu of %zu "
                                   "(memory_limit_bytes); try again later",
                                   what, bytes, atomic_load(&server->budget.reserved), limit),
                  retry_after_s(server, remaining_ns));
}
