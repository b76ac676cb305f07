/* A model's run as a task. */
#include "server/bench/task.h"

#include <stdio.h>
#include <stdlib.h>

static attn_status run(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    const srv_bench_task *task = context;
    return attn_program_run(task->program, &task->frame, phase, tile, scratch);
}

static attn_status list_phases(srv_bench_task *task, attn_error *error)
{
    int count = attn_program_phases(task->program);
    task->phases = calloc((size_t)count, sizeof *task->phases);
    if (!task->phases)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for %d phases", count);
    for (int i = 0; i < count; i++)
        task->phases[i] = attn_program_phase(task->program, i);
    task->work = (srv_bench_work){.run = run,
                                  .phases = task->phases,
                                  .phase_count = count,
                                  .scratch_bytes = attn_program_scratch_bytes(task->program)};
    return ATTN_OK;
}

attn_status srv_bench_model_task(srv_bench_task *task, const srv_bench_pool *pool,
                                 const attn_model *model, const attn_machine *machine,
                                 const attn_model_call *call, int workers, attn_error *error)
{
    const attn_model_info *info = attn_model_info_of(model);
    *task = (srv_bench_task){.backend = info->backends[call->backend].name,
                             .n = call->n,
                             .workers = workers,
                             .isa = machine->isa,
                             .pool = pool};
    attn_status status = attn_model_plan(&task->program, model, machine, call, error);
    if (status == ATTN_OK)
        status = list_phases(task, error);
    if (status == ATTN_OK)
        status = srv_bench_task_share(task, attn_program_shared_bytes(task->program), error);
    if (status != ATTN_OK)
        return status;
    task->frame.data[ATTN_ARRAY_INPUT] = pool->q;
    task->frame.data[ATTN_ARRAY_OUT] = pool->out;
    task->frame.data[ATTN_ARRAY_SHARED] = task->shared;
    task->flops = attn_program_flops(task->program);
    task->predicted_ns =
        attn_program_ns(task->program, &(attn_crew){.workers = workers, .pace = 1});
    task->predicted_bytes = attn_program_bytes(task->program, workers);
    snprintf(task->label, sizeof task->label, "%s %s of %.24s n %lld", attn_isa_name(task->isa),
             task->backend, info->name, (long long)task->n);
    return ATTN_OK;
}
