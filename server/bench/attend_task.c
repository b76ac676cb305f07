/* A backend's own call as a task: its plan, and the flops that its kind of work takes. */
#include "server/bench/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pairs of a head that a window shows, cut at both ends of the sequence. */
static double window_pairs(const attn_shape *s, const attn_mix_params *p)
{
    double pairs = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t at = i + s->m - s->n;
        int64_t from = at - p->window + (p->mask.causal ? 1 : 0);
        int64_t to = at + (p->mask.causal ? 0 : p->window);
        from = from < 0 ? 0 : from;
        to = to < s->m ? to : s->m - 1;
        pairs += to >= from ? (double)(to - from + 1) : 0;
    }
    return pairs;
}

static double exact_pairs(const attn_shape *s, const attn_mix_params *p)
{
    double pairs = 0;
    if (!p->mask.lengths)
        pairs = (double)s->batch * (double)s->n * (double)s->m;
    for (int64_t b = 0; p->mask.lengths && b < s->batch; b++)
        pairs += (double)p->mask.lengths[b] * (double)p->mask.lengths[b];
    return pairs / (p->mask.causal ? 2 : 1);
}

/* Those of sparse, which only its tiles know, are added by count_pairs. */
static double flops_of(const attn_plan *plan)
{
    const attn_shape *s = &plan->shape;
    const attn_mix_params *p = &plan->params;
    const char *name = plan->mixer->name;
    double heads = (double)s->heads, kv_heads = (double)(s->batch * s->kv_heads);
    double columns = 2.0 * (double)(s->d + s->dv), n = (double)s->n, m = (double)s->m;
    double query_rows = (double)s->batch * heads * n;
    if (strcmp(name, "exact") == 0)
        return exact_pairs(s, p) * heads * columns;
    if (strcmp(name, "window") == 0)
        return window_pairs(s, p) * (double)s->batch * heads * columns;
    if (strcmp(name, "performer") == 0)
        return (query_rows + kv_heads * m) * (double)p->features * columns;
    if (strcmp(name, "linformer") == 0)
        return (query_rows + (p->projection == ATTN_MEAN ? 0 : kv_heads * m)) * (double)p->k *
               columns;
    return 0;
}

static attn_status run_attend(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    const srv_bench_task *task = context;
    return task->plan.mixer->run(&task->plan, &task->io, phase, tile, scratch);
}

/* Run the work here once to add up the scores that its tiles compute. */
static attn_status count_pairs(srv_bench_task *task, double *pairs, attn_error *error)
{
    const attn_plan *plan = &task->plan;
    int64_t slots = 1;
    for (int f = 0; f < plan->phase_count; f++)
        slots = plan->phases[f].tiles > slots ? plan->phases[f].tiles : slots;
    size_t bytes = attn_arena_round(plan->scratch_bytes) + ATTN_ALIGN;
    void *memory = aligned_alloc(ATTN_ALIGN, bytes);
    uint64_t *scores = calloc((size_t)slots, sizeof *scores);
    attn_status status = memory && scores ? ATTN_OK : ATTN_NO_MEMORY;
    task->io.scores = scores;
    for (int f = 0; f < plan->phase_count; f++)
        for (int64_t tile = 0; tile < plan->phases[f].tiles && status == ATTN_OK; tile++) {
            attn_arena arena;
            attn_arena_init(&arena, memory, bytes);
            status = run_attend(task, f, tile, &arena);
        }
    for (int64_t i = 0; i < slots && status == ATTN_OK; i++)
        *pairs += (double)scores[i];
    task->io.scores = NULL;
    free(scores);
    free(memory);
    return status == ATTN_OK ? ATTN_OK
                             : attn_error_set(error, status, NULL, "%s: %s", plan->mixer->name,
                                              attn_status_name(status));
}

static void print_label(srv_bench_task *task)
{
    const attn_shape *s = &task->plan.shape;
    snprintf(task->label, sizeof task->label, "%s %s %s n %lld d %lld%s", attn_isa_name(task->isa),
             task->plan.mixer->name, task->plan.params.mask.causal ? "causal" : "full",
             (long long)s->n, (long long)s->d, task->workers > 1 ? ", 2 workers" : "");
}

attn_status srv_bench_attend_task(srv_bench_task *task, const srv_bench_pool *pool,
                                  const attn_mixer *mixer, const attn_machine *machine,
                                  const attn_shape *s, const attn_mix_params *params, int workers,
                                  attn_error *error)
{
    *task = (srv_bench_task){
        .backend = mixer->name, .n = s->n, .workers = workers, .isa = machine->isa, .pool = pool};
    attn_status status = attn_mixer_plan(mixer, machine, params, s, &task->plan, error);
    if (status != ATTN_OK)
        return status;
    status = srv_bench_task_share(task, task->plan.shared_bytes, error);
    if (status != ATTN_OK)
        return status;
    task->io = (attn_mix_io){.q = attn_view_dense(pool->q, s->heads, s->n, s->d),
                             .k = attn_view_dense(pool->k, s->kv_heads, s->m, s->d),
                             .v = attn_view_dense(pool->v, s->kv_heads, s->m, s->dv),
                             .out = attn_view_dense(pool->out, s->heads, s->n, s->dv),
                             .shared = task->shared};
    task->work = (srv_bench_work){.run = run_attend,
                                  .phases = task->plan.phases,
                                  .phase_count = task->plan.phase_count,
                                  .scratch_bytes = task->plan.scratch_bytes};
    task->predicted_ns = attn_plan_ns(&task->plan) / workers;
    task->predicted_bytes = attn_plan_bytes(&task->plan, workers);
    print_label(task);
    task->flops = flops_of(&task->plan);
    if (task->flops > 0)
        return ATTN_OK;
    double pairs = 0;
    status = count_pairs(task, &pairs, error);
    task->flops = pairs * 2 * (double)(s->d + s->dv);
    return status;
}
