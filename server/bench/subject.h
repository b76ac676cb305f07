/* What a run of `attnd bench` is about: raw calls of sizes of one's own, or a model of a folder. */
#ifndef SERVER_BENCH_SUBJECT_H
#define SERVER_BENCH_SUBJECT_H

#include "server/bench/options.h"
#include "server/bench/task.h"

enum {
    SRV_BENCH_MOST_BACKENDS = 16
};

typedef struct srv_bench_subject {
    const srv_bench_options *options; /* borrowed, like the machine */
    const attn_machine *machine;
    int workers;
    attn_model *model; /* NULL: raw calls */
    bool causal;       /* whether the future is hidden */
    int count;         /* of backends, at least 1 */
    const char *backends[SRV_BENCH_MOST_BACKENDS];
} srv_bench_subject;

/* Load the model, if there is one, and find the backends. Close it in any case. ATTN_INVALID names
 * the flag and what is known; what a model's folder is refused for is passed on. */
attn_status srv_bench_subject_open(srv_bench_subject *subject, const srv_bench_options *options,
                                   const attn_machine *machine, int workers, attn_error *error);
void srv_bench_subject_close(srv_bench_subject *subject);

/* Arrays for a round of `n` positions, and the task of backend `index` over them. */
attn_status srv_bench_subject_pool(const srv_bench_subject *subject, int64_t n,
                                   srv_bench_pool *pool, attn_error *error);
attn_status srv_bench_subject_task(const srv_bench_subject *subject, int64_t n, int index,
                                   const srv_bench_pool *pool, srv_bench_task *task,
                                   attn_error *error);

#endif
