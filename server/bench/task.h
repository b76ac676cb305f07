/* What a benchmark times: a backend's own call, a model's run, or OpenBLAS's sgemm as the
 * yardstick. */
#ifndef SERVER_BENCH_TASK_H
#define SERVER_BENCH_TASK_H

#include "attn/mixer.h"
#include "attn/model.h"
#include "server/bench/crew.h"
#include "server/bench/pool.h"
#include "server/bench/samples.h"

typedef struct srv_bench_task {
    char label[72];
    const char *backend; /* NULL: this is sgemm */
    int64_t n;
    int workers; /* of the executor that it is timed on */
    attn_isa isa;
    srv_bench_work work; /* a context of NULL is the task, phases of NULL are `phase` */
    attn_phase phase;
    attn_plan plan;        /* of a backend's own call; else of no mixer */
    attn_mix_io io;        /* the same */
    attn_program *program; /* of a model's run; else NULL */
    attn_frame frame;      /* the same */
    attn_phase *phases;    /* the same: those of `work` */
    void *shared;
    const srv_bench_pool *pool;
    double flops;           /* see srv_bench_attend_task and srv_bench_model_task */
    double predicted_ns;    /* on so many workers */
    size_t predicted_bytes; /* of workspace */
    size_t shared_bytes;
    size_t workspace_bytes;      /* measured: shared, and the scratch of all workers */
    double last_ns;              /* of the last run, recorded or not */
    srv_bench_samples ns;        /* of every repetition */
    srv_bench_samples busy_ns;   /* the same in processor time of all workers */
    srv_bench_samples rate;      /* GFLOP/s of every repetition */
    srv_bench_samples busy_rate; /* the same by processor time: as if no worker had ever waited for
                                    a core, which is what counts on a machine that others use */
} srv_bench_task;

/* `workers` multiplications of square matrices at a time, one on each worker. */
srv_bench_task srv_bench_sgemm_task(const srv_bench_pool *pool, int workers);

/* A backend over the pool's arrays, which are large enough; what the parameters point to is
 * borrowed. Flops are those of the pairs the backend has to visit, 2 (d + dv) each: all for exact,
 * half with a causal mask, the band of window, and what the tiles of sparse count; of Linformer and
 * Performer those of their matrix products. The label says all of it.
 *
 * Close it in any case. The plan's refusal, or ATTN_NO_MEMORY. */
attn_status srv_bench_attend_task(srv_bench_task *task, const srv_bench_pool *pool,
                                  const attn_mixer *mixer, const attn_machine *machine,
                                  const attn_shape *shape, const attn_mix_params *params,
                                  int workers, attn_error *error);

/* A model's run over the pool's q as hidden states, which are random then; `call` is borrowed only
 * meanwhile. Flops are those of its linear maps alone. Close it in any case, before the model. The
 * model's refusal, or ATTN_NO_MEMORY. */
attn_status srv_bench_model_task(srv_bench_task *task, const srv_bench_pool *pool,
                                 const attn_model *model, const attn_machine *machine,
                                 const attn_model_call *call, int workers, attn_error *error);

void srv_bench_task_close(srv_bench_task *task);

/* Take `shared_bytes` for the task's workspace. */
attn_status srv_bench_task_share(srv_bench_task *task, size_t shared_bytes, attn_error *error);

/* Run and, when `record`, note time and rate; what is brief runs unrecorded just before, so that it
 * is not charged for the caches that another task left cold. Returns how the work ended. */
attn_status srv_bench_task_run(srv_bench_task *task, srv_executor *executor, bool record);

/* The instruction set of the kernel that sgemm runs, as far as its name tells; else scalar. */
attn_isa srv_bench_sgemm_isa(void);

#endif
