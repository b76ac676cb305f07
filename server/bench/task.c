#include "server/bench/task.h"

#include "attn/blas.h"
#include "server/bench/crew.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double brief_ns = 20e6;
enum {
    MOST_ROUNDS = 32
};

attn_isa srv_bench_sgemm_isa(void)
{
    static const struct {
        const char *core;
        attn_isa isa;
    } known[] = {{"SkylakeX", ATTN_ISA_AVX512},
                 {"Cooperlake", ATTN_ISA_AVX512},
                 {"SapphireRapids", ATTN_ISA_AVX512},
                 {"Haswell", ATTN_ISA_AVX2},
                 {"Zen", ATTN_ISA_AVX2},
                 {"Excavator", ATTN_ISA_AVX2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(attn_blas_name(), known[i].core))
            return known[i].isa;
    return ATTN_ISA_SCALAR;
}

srv_bench_task srv_bench_sgemm_task(const srv_bench_pool *pool, int workers)
{
    srv_bench_task task = {.workers = workers,
                           .isa = srv_bench_sgemm_isa(),
                           .flops = 2.0 * workers * pow(SRV_BENCH_SGEMM_SIDE, 3),
                           .pool = pool};
    snprintf(task.label, sizeof task.label, "sgemm, %d at a time", workers);
    return task;
}

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

static attn_status run_sgemm(const void *context, int phase, int64_t tile, attn_arena *scratch)
{
    (void)phase;
    (void)scratch;
    const int64_t side = SRV_BENCH_SGEMM_SIDE;
    const srv_bench_pool *pool = ((const srv_bench_task *)context)->pool;
    attn_blas_sgemm(side, side, side, pool->factor[0], pool->factor[1],
                    pool->product + tile * side * side);
    return ATTN_OK;
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
    *task = (srv_bench_task){.workers = workers, .isa = machine->isa, .pool = pool};
    attn_status status = attn_mixer_plan(mixer, machine, params, s, &task->plan, error);
    if (status != ATTN_OK)
        return status;
    size_t shared_bytes = attn_arena_round(task->plan.shared_bytes) + ATTN_ALIGN;
    task->io = (attn_mix_io){.q = attn_view_dense(pool->q, s->heads, s->n, s->d),
                             .k = attn_view_dense(pool->k, s->kv_heads, s->m, s->d),
                             .v = attn_view_dense(pool->v, s->kv_heads, s->m, s->dv),
                             .out = attn_view_dense(pool->out, s->heads, s->n, s->dv),
                             .shared = aligned_alloc(ATTN_ALIGN, shared_bytes)};
    if (!task->io.shared)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for a workspace of %zu bytes",
                              shared_bytes);
    print_label(task);
    task->flops = flops_of(&task->plan);
    if (task->flops > 0)
        return ATTN_OK;
    double pairs = 0;
    status = count_pairs(task, &pairs, error);
    task->flops = pairs * 2 * (double)(s->d + s->dv);
    return status;
}

void srv_bench_task_close(srv_bench_task *task)
{
    free(task->io.shared);
    task->io.shared = NULL;
}

/* So many that they last about as long as brief work may. */
static int rounds_of(const srv_bench_task *task)
{
    double rounds = task->last_ns > 0 ? brief_ns / task->last_ns : 1;
    return rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : (int)rounds;
}

attn_status srv_bench_task_run(srv_bench_task *task, srv_executor *executor, bool record)
{
    const attn_plan *plan = &task->plan;
    const attn_phase sgemm = {.name = "sgemm", .tiles = task->workers, .tile_ns = 1e8};
    srv_bench_work work = {
        .run = run_sgemm, .context = task, .phases = &sgemm, .phase_count = 1, .rounds = 1};
    if (plan->mixer)
        work = (srv_bench_work){.run = run_attend,
                                .context = task,
                                .phases = plan->phases,
                                .phase_count = plan->phase_count,
                                .scratch_bytes = plan->scratch_bytes,
                                .rounds = rounds_of(task)};
    if (record && task->last_ns < brief_ns)
        srv_bench_run(executor, &work);
    srv_bench_result result = srv_bench_run(executor, &work);
    task->last_ns = result.ns;
    size_t bytes = plan->shared_bytes + result.scratch_bytes;
    task->workspace_bytes = bytes > task->workspace_bytes ? bytes : task->workspace_bytes;
    if (record && result.status == ATTN_OK) {
        srv_bench_sample(&task->ns, result.ns);
        srv_bench_sample(&task->rate, task->flops / result.ns);
        srv_bench_sample(&task->busy_rate, task->flops * task->workers / result.busy_ns);
    }
    return result.status;
}

/* (m) weights of query i of head h, which add up to 1. */
static void reference_weights(const srv_bench_task *task, int64_t h, int64_t i, double *weights)
{
    const attn_shape *s = &task->plan.shape;
    int64_t keys = task->plan.params.mask.causal ? i + 1 + s->m - s->n : s->m;
    const float *q = attn_view_row(task->io.q, 0, h, i);
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->m; j++) {
        const float *k = attn_view_row(task->io.k, 0, h, j);
        double logit = 0;
        for (int64_t c = 0; c < s->d; c++)
            logit += (double)q[c] * k[c];
        weights[j] = j < keys ? task->plan.params.scale * logit : -INFINITY;
        maximum = fmax(maximum, weights[j]);
    }
    for (int64_t j = 0; j < s->m; j++)
        sum += weights[j] = exp(weights[j] - maximum);
    for (int64_t j = 0; j < s->m; j++)
        weights[j] /= sum;
}

double srv_bench_task_error(const srv_bench_task *task)
{
    const int64_t every = 61; /* rows apart: coprime to every tile size */
    const attn_shape *s = &task->plan.shape;
    double *weights = malloc((size_t)s->m * sizeof *weights);
    double worst = weights ? 0 : NAN, v = 0;
    for (int64_t i = 0; i < s->heads * s->m * s->dv; i++)
        v = fmax(v, fabs((double)task->io.v.data[i]));
    for (int64_t row = 0; row < s->heads * s->n && weights; row += every) {
        int64_t h = row / s->n, i = row % s->n;
        reference_weights(task, h, i, weights);
        for (int64_t c = 0; c < s->dv; c++) {
            double expected = 0;
            for (int64_t j = 0; j < s->m; j++)
                expected += weights[j] * attn_view_row(task->io.v, 0, h, j)[c];
            double error = fabs(attn_view_row(task->io.out, 0, h, i)[c] - expected);
            worst = error <= worst ? worst : error;
        }
    }
    free(weights);
    return worst / v;
}
