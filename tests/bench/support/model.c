/* Layers of hidden size 768 at n 4096. What a layer cannot do without is its linear maps, here at
 * the speed of sgemm, and its mixer: Mamba's exponentials alone times what the scan may take beside
 * them, or exact attention alone. The ratio of its time to that of these pieces, all measured by
 * turns, says what norms, convolutions, barriers and the sizes of tiles cost: 1 is nothing. */
#include "tests/bench/support/model.h"

#include "kernels/kernels.h"
#include "tests/support/folder.h"

#include "attn/untrained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 4096,
    HIDDEN = 768,
    HEADS = 12,
    EXPONENTIAL_TILES = 64,
    DTYPES = 2,
    MIXERS = 2,
};

static const double scan_floor = 1.6; /* times the exponentials alone */
static const char *const mixers[MIXERS] = {"exact", "mamba"};
static const attn_dtype dtypes[DTYPES] = {ATTN_FP32, ATTN_BF16};

static const char config[] = "{\"model_type\": \"layer\", \"hidden_size\": 768, "
                             "\"num_attention_heads\": 12, \"causal\": false, "
                             "\"backends\": {\"exact\": {}, \"mamba\": {}}}";

/* Everything of one machine on one executor. */
typedef struct layers {
    srv_bench_task sgemm, exponentials, attend;
    srv_bench_task of[MIXERS][DTYPES];
} layers;

static attn_untrained *list_tensors(attn_error *error)
{
    const attn_untrained_spec spec = {.hidden = HIDDEN,
                                      .heads = HEADS,
                                      .kv_heads = HEADS,
                                      .seq_len = 1,
                                      .k = 1,
                                      .layers = 1,
                                      .mixers = 1,
                                      .parts = {ATTN_PART_ATTENTION | ATTN_PART_MAMBA}};
    return attn_untrained_open(&spec, error);
}

/* Matrices in BF16 where that is asked for, in place. */
static void narrow(attn_stored *tensor, float *data)
{
    uint16_t *to = (uint16_t *)(void *)data;
    for (size_t i = 0; i < tensor->count; i++) {
        uint16_t bits = attn_bf16_from_float(data[i]);
        memcpy(&to[i], &bits, sizeof bits);
    }
    tensor->dtype = ATTN_BF16;
}

/* A model of that element type, whose files are gone from their folder as soon as they are mapped.
 */
static attn_model *open_model(attn_dtype dtype, attn_error *error)
{
    attn_untrained *untrained = list_tensors(error);
    float *data = untrained ? malloc(attn_untrained_bytes(untrained)) : NULL, *at = data;
    int count = untrained ? attn_untrained_count(untrained) : 0;
    attn_stored *tensors = calloc((size_t)count + 1, sizeof *tensors);
    for (int i = 0; data && tensors && i < count; i++) {
        tensors[i] = attn_untrained_tensors(untrained)[i];
        attn_untrained_fill(untrained, i, 0, tensors[i].count, at);
        tensors[i].data = (const unsigned char *)at;
        if (dtype == ATTN_BF16 && tensors[i].rank == 2)
            narrow(&tensors[i], at);
        at += tensors[i].count;
    }
    attn_model *model = NULL;
    if (data && tensors) {
        test_folder folder = folder_open();
        folder_tensors(&folder, "model.safetensors", tensors, count);
        folder_text(&folder, "config.json", config);
        model = attn_model_open(folder.path, attn_dtype_name(dtype), error);
        folder_close(&folder);
    }
    free(tensors);
    free(data);
    attn_untrained_close(untrained);
    return model;
}

static attn_status run_exponentials(const void *context, int phase, int64_t tile,
                                    attn_arena *scratch)
{
    const int64_t inner = ATTN_UNTRAINED_EXPAND * HIDDEN;
    const attn_scan_kernels *kernels = context;
    volatile float sum =
        kernels->exponentials(N * inner * ATTN_UNTRAINED_D_STATE / EXPONENTIAL_TILES);
    (void)phase, (void)tile, (void)scratch, (void)sum;
    return ATTN_OK;
}

static srv_bench_task exponentials_task(const attn_machine *machine, int workers)
{
    return (srv_bench_task){
        .workers = workers,
        .work = {.run = run_exponentials,
                 .context = attn_kernels_find(machine->isa)->scan,
                 .phase_count = 1},
        .phase = {.name = "exponentials", .tiles = EXPONENTIAL_TILES, .tile_ns = 1e5}};
}

static attn_status open_layers(layers *l, const attn_machine *machine, const srv_bench_pool *pool,
                               attn_model *const models[DTYPES], int workers, attn_error *error)
{
    const attn_shape shape = {1, HEADS, HEADS, N, N, HIDDEN / HEADS, HIDDEN / HEADS};
    attn_mix_params params;
    attn_mix_params_init(&params, shape.d);
    l->sgemm = srv_bench_sgemm_task(pool, workers);
    l->exponentials = exponentials_task(machine, workers);
    attn_status status = srv_bench_attend_task(&l->attend, pool, attn_mixer_find("exact"), machine,
                                               &shape, &params, workers, error);
    for (int m = 0; m < MIXERS; m++)
        for (int d = 0; d < DTYPES && status == ATTN_OK; d++) {
            const int backend = attn_model_find_backend(models[d], mixers[m]);
            const attn_model_call call = {.backend = backend,
                                          .adapter = -1,
                                          .batch = 1,
                                          .n = N,
                                          .mix =
                                              attn_model_info_of(models[d])->backends[backend].mix};
            status =
                srv_bench_model_task(&l->of[m][d], pool, models[d], machine, &call, workers, error);
        }
    return status;
}

static void close_layers(layers *l)
{
    srv_bench_task_close(&l->attend);
    for (int m = 0; m < MIXERS; m++)
        for (int d = 0; d < DTYPES; d++)
            srv_bench_task_close(&l->of[m][d]);
}

/* Repetition 0 is not recorded. */
static void time_layers(layers *l, srv_executor *executor, int repetitions)
{
    for (int r = 0; r <= repetitions; r++) {
        srv_bench_task_run(&l->sgemm, executor, r > 0);
        srv_bench_task_run(&l->exponentials, executor, r > 0);
        srv_bench_task_run(&l->attend, executor, r > 0);
        for (int m = 0; m < MIXERS; m++)
            for (int d = 0; d < DTYPES; d++)
                srv_bench_task_run(&l->of[m][d], executor, r > 0);
    }
}

/* What the pieces take in each repetition, in elapsed or in processor time. */
static srv_bench_samples pieces(const layers *l, int m, bool busy)
{
    const srv_bench_task *mixer = m == 0 ? &l->attend : &l->exponentials;
    const double times = m == 0 ? 1 : scan_floor, share = l->of[m][0].flops / l->sgemm.flops;
    srv_bench_samples sum = {0};
    for (int r = 0; r < l->sgemm.ns.count; r++)
        srv_bench_sample(&sum,
                         busy ? share * l->sgemm.busy_ns.value[r] + times * mixer->busy_ns.value[r]
                              : share * l->sgemm.ns.value[r] + times * mixer->ns.value[r]);
    return sum;
}

static void print_line(const layers *l, int m, int d)
{
    const double floor = 1.2, goal = 1.05;
    const srv_bench_task *task = &l->of[m][d];
    const srv_bench_samples alone = pieces(l, m, false), busy = pieces(l, m, true);
    const double ratio = srv_bench_ratio(&task->ns, &alone);
    char label[64];
    snprintf(label, sizeof label, "%s %s %s, %d worker%s", attn_isa_name(task->isa), mixers[m],
             attn_dtype_name(dtypes[d]), task->workers, task->workers > 1 ? "s" : "");
    printf("%-46s %9.2f %9.2f %6.3f %6.3f  %5.2f  %5.2f  %-6s", label,
           srv_bench_summarize(&task->ns).median / 1e6, srv_bench_summarize(&alone).median / 1e6,
           ratio, srv_bench_ratio(&task->busy_ns, &busy), floor, goal,
           task->isa != srv_bench_sgemm_isa() ? "unlike"
           : ratio <= floor                   ? "ok"
                                              : "MISSED");
    if (d > 0)
        printf("  %.3f of the time in FP32", srv_bench_ratio(&task->busy_ns, &l->of[m][0].busy_ns));
    printf("\n");
}

static void print_head(int repetitions)
{
    printf("\nLayers of hidden size %d at n %d: time beside their products at the speed of sgemm "
           "and attention\nalone, or %.1f times Mamba's exponentials alone; median of %d "
           "interleaved repetitions; less is better\n",
           HIDDEN, N, scan_floor, repetitions);
    printf("%-46s %9s %9s %6s %6s  %5s  %5s\n", "what", "ms", "alone", "ratio", "busy", "floor",
           "goal");
}

void bench_models_print(const attn_machine *machine, const srv_bench_pool *pool,
                        srv_executor *const *executors, int executor_count, int repetitions)
{
    attn_error error = {0};
    attn_model *models[DTYPES];
    attn_status status = ATTN_OK;
    for (int d = 0; d < DTYPES; d++)
        models[d] = open_model(dtypes[d], &error);
    layers *l = calloc(1, sizeof *l);
    if (!l || !models[0] || !models[1])
        status = ATTN_NO_MEMORY;
    print_head(repetitions);
    for (int e = 0; e < executor_count && status == ATTN_OK; e++) {
        memset(l, 0, sizeof *l);
        status = open_layers(l, machine, pool, models, e + 1, &error);
        if (status == ATTN_OK)
            time_layers(l, executors[e], repetitions);
        for (int line = 0; line < MIXERS * DTYPES && status == ATTN_OK; line++)
            print_line(l, line / DTYPES, line % DTYPES);
        close_layers(l);
    }
    if (status != ATTN_OK)
        printf("SKIP layers: %s. %s\n", attn_status_name(status), error.message);
    free(l);
    for (int d = 0; d < DTYPES; d++)
        attn_model_close(models[d]);
}
