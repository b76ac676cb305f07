/* How fast exact attention is beside OpenBLAS's sgemm of 2048, and how exact.
 *
 * Every repetition runs each size once, between two runs of sgemm on as many workers, and ratios
 * are taken within a repetition; their medians stand beside the floors that must hold and the goals.
 * Only a miss is judged, never a time: the machine may be busy, and the exit status is always 0.
 *
 * A ratio to sgemm is fair where both use the same instruction set. OpenBLAS picks its kernel by
 * CPU, or by OPENBLAS_CORETYPE where that is set: on a CPU with AVX-512 it runs an AVX-512 kernel by
 * itself and an AVX2 one under OPENBLAS_CORETYPE=Haswell. So the avx512 rows are judged in the
 * former case and the avx2 rows in the latter; the others are printed and marked "unlike". */
#include "attn/blas.h"
#include "attn/mixer.h"
#include "kernels/kernels.h"
#include "tests/bench/support/crew.h"
#include "tests/bench/support/samples.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SGEMM_SIDE = 2048,
    POOL_FLOATS = 2 * 4096 * 128, /* the largest of q, k, v and out */
    MOST_TASKS = 128,
    MOST_BATCH = 3,
    MOST_WORKERS = 2,
};

/* Arrays that every task works on. */
typedef struct pool {
    float *q, *k, *v, *out, *product[MOST_WORKERS];
} pool;

/* Something timed once in each repetition. */
typedef struct task {
    char label[48];
    int round;   /* tasks of a round run next to each other */
    int workers; /* 1 or 2 */
    double flops;
    attn_plan plan; /* of no mixer: this is sgemm */
    attn_mix_io io;
    pool *pool;
    bench_samples rate; /* GFLOP/s */
} task;

/* A line of the table: how fast one task is in relation to another. */
typedef struct line {
    const task *of, *to;
    double floor, goal;
    bool against_sgemm;
} line;

typedef struct bench {
    pool pool;
    bench_crew crews[MOST_WORKERS];
    int crew_count;
    task tasks[MOST_TASKS];
    line lines[MOST_TASKS];
    int task_count, line_count;
    int64_t lengths[MOST_BATCH]; /* of the padded batch */
} bench;

static double normal(void)
{
    double u = (rand() + 1.0) / (RAND_MAX + 1.0), w = rand() / (RAND_MAX + 1.0);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * w);
}

static bool open_pool(pool *p)
{
    float **arrays[] = {&p->q, &p->k, &p->v, &p->out, &p->product[0], &p->product[1]};
    const size_t square = (size_t)SGEMM_SIDE * SGEMM_SIDE;
    const size_t floats = square > POOL_FLOATS ? square : POOL_FLOATS;
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        *arrays[a] = aligned_alloc(ATTN_ALIGN, floats * sizeof(float));
        if (!*arrays[a])
            return false;
        for (size_t i = 0; i < floats; i++)
            (*arrays[a])[i] = (float)normal();
    }
    return true;
}

static void close_pool(pool *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->out);
    free(p->product[0]);
    free(p->product[1]);
}

static attn_status run_sgemm(void *context, int64_t tile, attn_arena *scratch)
{
    (void)scratch;
    pool *p = ((task *)context)->pool;
    attn_blas_sgemm(SGEMM_SIDE, SGEMM_SIDE, SGEMM_SIDE, p->q, p->k, p->product[tile]);
    return ATTN_OK;
}

static attn_status run_attend(void *context, int64_t tile, attn_arena *scratch)
{
    const task *t = context;
    return t->plan.mixer->run(&t->plan, &t->io, 0, tile, scratch);
}

static void time_task(bench *b, task *t, int repetition)
{
    bench_work work = {.run = run_sgemm, .context = t, .tiles = t->workers};
    if (t->plan.mixer)
        work = (bench_work){.run = run_attend,
                            .context = t,
                            .tiles = t->plan.phases[0].tiles,
                            .scratch_bytes = t->plan.scratch_bytes};
    double start = bench_now_ns();
    attn_status status = bench_crew_run(&b->crews[t->workers - 1], &work);
    double took_ns = bench_now_ns() - start;
    t->rate.value[repetition] = status == ATTN_OK ? t->flops / took_ns : NAN;
}

static task *add_sgemm(bench *b, int round, int workers)
{
    task *t = &b->tasks[b->task_count++];
    *t = (task){.round = round,
                .workers = workers,
                .flops = 2.0 * workers * pow(SGEMM_SIDE, 3),
                .pool = &b->pool};
    snprintf(t->label, sizeof t->label, "sgemm of %d, %d at a time", SGEMM_SIDE, workers);
    return t;
}

/* The flops of the visible pairs; half of them when causal, as is usual. */
static double attend_flops(const attn_shape *s, const attn_mask *mask)
{
    double pairs = 0;
    for (int64_t b = 0; b < s->batch; b++)
        pairs += mask->lengths ? (double)(mask->lengths[b] * mask->lengths[b])
                               : (double)s->n * (double)s->m;
    return pairs * 2 * (double)(s->heads * (s->d + s->dv)) / (mask->causal ? 2 : 1);
}

static void point_at_pool(task *t, const attn_shape *s)
{
    t->io = (attn_mix_io){.q = attn_view_dense(t->pool->q, s->heads, s->n, s->d),
                          .k = attn_view_dense(t->pool->k, s->kv_heads, s->m, s->d),
                          .v = attn_view_dense(t->pool->v, s->kv_heads, s->m, s->dv),
                          .out = attn_view_dense(t->pool->out, s->heads, s->n, s->dv)};
}

static task *add_attend(bench *b, const attn_machine *machine, const attn_shape *shape,
                        const attn_mask *mask, int round, int workers)
{
    task *t = &b->tasks[b->task_count++];
    *t = (task){.round = round,
                .workers = workers,
                .flops = attend_flops(shape, mask),
                .pool = &b->pool};
    attn_mix_params params = {.scale = attn_default_scale(shape->d), .mask = *mask};
    attn_mixer_plan(attn_mixer_find("exact"), machine, &params, shape, &t->plan, NULL);
    point_at_pool(t, shape);
    snprintf(t->label, sizeof t->label, "%-6s %s n %lld d %lld%s", attn_isa_name(machine->isa),
             mask->causal ? "causal" : "full", (long long)shape->n, (long long)shape->d,
             workers > 1 ? ", 2 workers" : "");
    return t;
}

static void add_line(bench *b, const task *of, const task *to, double floor, double goal)
{
    b->lines[b->line_count++] = (line){
        .of = of, .to = to, .floor = floor, .goal = goal, .against_sgemm = !to->plan.mixer};
}

static void add_against_sgemm(bench *b, const task *t, const task *sgemm)
{
    bool causal = t->plan.params.mask.causal, small = t->plan.shape.n < 1024;
    double floor = !causal ? 0.90 : small ? 0.82 : 0.87;
    double goal = causal ? (small ? 0.90 : 0.95) : (small ? 0.95 : 0.97);
    add_line(b, t, sgemm, floor, goal);
}

/* Full and causal, d = 64 and 128, one and two workers, at one n. Returns the task that awkward
 * shapes of that d are held against. */
static void add_round_shapes(bench *b, const attn_machine *machine, int n, int round,
                             task *const sgemm[MOST_WORKERS], const task *references[2])
{
    const int heads = n >= 2048 ? 2 : 4096 / n;
    for (int wide = 0; wide < 2; wide++)
        for (int causal = 0; causal < 2; causal++) {
            const int d = wide ? 128 : 64;
            const attn_shape shape = {1, heads, heads, n, n, d, d};
            const attn_mask mask = {.causal = causal};
            task *one = add_attend(b, machine, &shape, &mask, round, 1);
            add_against_sgemm(b, one, sgemm[0]);
            if (!causal)
                references[wide] = one;
            if (b->crew_count < 2 || n < 1024)
                continue;
            task *two = add_attend(b, machine, &shape, &mask, round, 2);
            add_against_sgemm(b, two, sgemm[1]);
            if (n >= 2048)
                add_line(b, two, one, 1.8, 1.95);
        }
}

static void add_awkward(bench *b, const attn_machine *machine, int round,
                        const task *const references[2])
{
    static const struct {
        const char *name;
        attn_shape shape;
        bool padded;
        int wide; /* the round shape's d is 64 or 128 */
    } awkward[] = {
        {"n 1000", {1, 4, 4, 1000, 1000, 64, 64}, false, 0},
        {"d 80", {1, 4, 4, 1024, 1024, 80, 80}, false, 0},
        {"d 96", {1, 4, 4, 1024, 1024, 96, 96}, false, 1},
        {"8 heads share 2 of k and v", {1, 8, 2, 1024, 1024, 64, 64}, false, 0},
        {"a batch padded to 1024", {MOST_BATCH, 4, 4, 1024, 1024, 64, 64}, true, 0},
    };
    for (size_t i = 0; i < sizeof awkward / sizeof *awkward; i++) {
        const attn_mask mask = {.lengths = awkward[i].padded ? b->lengths : NULL};
        task *t = add_attend(b, machine, &awkward[i].shape, &mask, round, 1);
        snprintf(t->label, sizeof t->label, "%-6s %s", attn_isa_name(machine->isa),
                 awkward[i].name);
        add_line(b, t, references[awkward[i].wide], 0.85, 0.95);
    }
}

static void add_everything(bench *b, const attn_machine *machines, int machine_count)
{
    static const int sizes[] = {512, 1024, 2048, 4096};
    for (int round = 0; round < (int)(sizeof sizes / sizeof *sizes); round++) {
        task *sgemm[MOST_WORKERS] = {0};
        for (int c = 0; c < b->crew_count; c++)
            sgemm[c] = add_sgemm(b, round, c + 1);
        for (int i = 0; i < machine_count; i++) {
            const task *references[2];
            add_round_shapes(b, &machines[i], sizes[round], round, sgemm, references);
            if (sizes[round] == 1024)
                add_awkward(b, &machines[i], round, references);
        }
    }
}

/* The instruction set of the kernel that sgemm runs, as far as its name tells; else scalar. */
static attn_isa sgemm_isa(void)
{
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const avx2[] = {"Haswell", "Zen"};
    for (size_t i = 0; i < sizeof avx512 / sizeof *avx512; i++)
        if (strstr(attn_blas_name(), avx512[i]))
            return ATTN_ISA_AVX512;
    for (size_t i = 0; i < sizeof avx2 / sizeof *avx2; i++)
        if (strstr(attn_blas_name(), avx2[i]))
            return ATTN_ISA_AVX2;
    return ATTN_ISA_SCALAR;
}

static void print_head(void)
{
    printf("exact attention beside sgemm of %d\n%s, running its %s kernel\n", SGEMM_SIDE,
           attn_blas_name(), attn_isa_name(sgemm_isa()));
    static const char *const settings[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (getenv(settings[i]))
            printf("note: %s=%s is set, so sgemm does not run as the library would choose for this "
                   "CPU\n",
                   settings[i], getenv(settings[i]));
    printf("Ratios to sgemm are judged where both use the same instruction set; others are "
           "\"unlike\".\nMedian GFLOP/s [min-max] of %d interleaved repetitions.\n\n",
           BENCH_REPETITIONS);
    printf("%-40s %7s %-15s %-29s %6s %6s %5s\n", "what", "GFLOP/s", "", "in relation to", "ratio",
           "floor", "goal");
}

static const char *verdict(const line *l, double ratio)
{
    if (l->against_sgemm && l->of->plan.kernels->isa != sgemm_isa())
        return "unlike";
    return ratio >= l->floor ? "ok" : "MISSED";
}

static void print_line(const line *l)
{
    bench_summary rate = bench_summarize(&l->of->rate);
    bench_samples ratios = bench_ratios(&l->of->rate, &l->to->rate);
    double ratio = bench_summarize(&ratios).median;
    char range[32];
    snprintf(range, sizeof range, "[%.1f-%.1f]", rate.min, rate.max);
    printf("%-40s %7.1f %-15s %-29s %6.3f %6.2f %5.2f  %s\n", l->of->label, rate.median, range,
           l->to->label, ratio, l->floor, l->goal, verdict(l, ratio));
}

static void print_sgemm(const bench *b)
{
    for (int i = 0; i < b->task_count; i++) {
        const task *t = &b->tasks[i];
        bench_summary rate = bench_summarize(&t->rate);
        char range[32];
        snprintf(range, sizeof range, "[%.1f-%.1f]", rate.min, rate.max);
        if (!t->plan.mixer)
            printf("%-40s %7.1f %-15s beside round %d\n", t->label, rate.median, range,
                   t->round + 1);
    }
}

/* Row i of head h in float64, for all dv columns. */
static void reference_row(const task *t, int64_t h, int64_t i, double *row)
{
    const attn_shape *s = &t->plan.shape;
    int64_t keys = t->plan.params.mask.causal ? i + 1 + s->m - s->n : s->m;
    const float *q = attn_view_row(t->io.q, 0, h, i);
    double maximum = -INFINITY, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < keys; j++) {
            const float *k = attn_view_row(t->io.k, 0, h, j), *v = attn_view_row(t->io.v, 0, h, j);
            double logit = 0;
            for (int64_t c = 0; c < s->d; c++)
                logit += (double)q[c] * k[c];
            logit *= t->plan.params.scale;
            if (pass == 0) {
                maximum = fmax(maximum, logit);
                continue;
            }
            double p = exp(logit - maximum);
            sum += p;
            for (int64_t c = 0; c < s->dv; c++)
                row[c] += p * v[c];
        }
    for (int64_t c = 0; c < s->dv; c++)
        row[c] /= sum;
}

/* Largest error of sampled rows over the largest |v|, after one more run of the task. */
static double max_error(bench *b, task *t)
{
    enum {
        MOST_COLUMNS = 128,
        EVERY = 61 /* rows apart: coprime to every tile size */
    };
    const attn_shape *s = &t->plan.shape;
    double worst = 0, v = 0;
    time_task(b, t, 0);
    for (int64_t i = 0; i < s->heads * s->m * s->dv; i++)
        v = fmax(v, fabs((double)t->pool->v[i]));
    for (int64_t row = 0; row < s->heads * s->n; row += EVERY) {
        double expected[MOST_COLUMNS] = {0};
        reference_row(t, row / s->n, row % s->n, expected);
        const float *out = attn_view_row(t->io.out, 0, row / s->n, row % s->n);
        for (int64_t c = 0; c < s->dv; c++)
            worst = fmax(worst, fabs(out[c] - expected[c]));
    }
    return worst / v;
}

static void print_errors(bench *b)
{
    printf("\n%-40s %9s %6s\n", "max error / max |v|, unit-normal q, k, v", "", "floor");
    for (int i = 0; i < b->task_count; i++) {
        task *t = &b->tasks[i];
        const attn_shape *s = &t->plan.shape;
        bool plain = t->plan.mixer && s->heads == s->kv_heads && !t->plan.params.mask.lengths;
        if (!plain || s->n != 1024 || s->d % 64 != 0 || t->workers != 1)
            continue;
        double error = max_error(b, t);
        printf("%-40s %9.2g %6.0e  %s\n", t->label, error, 1e-6, error <= 1e-6 ? "ok" : "MISSED");
    }
}

static int probe_machines(attn_machine machines[2])
{
    int count = 0;
    for (attn_isa isa = ATTN_ISA_AVX2; isa <= ATTN_ISA_AVX512; isa++) {
        attn_error error = {0};
        if (attn_machine_probe(&machines[count], attn_isa_name(isa), &error) == ATTN_OK)
            count++;
        else
            printf("SKIP %s: %s\n", attn_isa_name(isa), error.message);
    }
    return count;
}

/* One worker, and a second where there is a core for it. */
static bool open_crews(bench *b, int cores)
{
    size_t scratch_bytes = 0;
    for (int i = 0; i < b->task_count; i++)
        if (b->tasks[i].plan.scratch_bytes > scratch_bytes)
            scratch_bytes = b->tasks[i].plan.scratch_bytes;
    for (int c = 0; c < b->crew_count; c++) {
        attn_error error = {0};
        if (bench_crew_open(&b->crews[c], c + 1, scratch_bytes, &error) != ATTN_OK) {
            printf("%s\n", error.message);
            return false;
        }
    }
    if (cores < 2)
        printf("SKIP two workers: there is one core\n");
    return true;
}

static void run_and_print(bench *b)
{
    /* Once unrecorded: pages, clocks and OpenBLAS's buffers warm up. */
    for (int i = 0; i < b->task_count && b->tasks[i].round == 0; i++)
        time_task(b, &b->tasks[i], 0);
    for (int repetition = 0; repetition < BENCH_REPETITIONS; repetition++)
        for (int i = 0; i < b->task_count; i++)
            time_task(b, &b->tasks[i], repetition);
    print_head();
    for (int i = 0; i < b->line_count; i++)
        print_line(&b->lines[i]);
    print_sgemm(b);
    print_errors(b);
}

int main(void)
{
    attn_blas_init();
    bench *b = calloc(1, sizeof *b);
    attn_machine machines[2];
    int machine_count = probe_machines(machines);
    if (b && machine_count > 0 && open_pool(&b->pool)) {
        memcpy(b->lengths, (int64_t[]){1024, 700, 333}, sizeof b->lengths);
        b->crew_count = machines[0].cores >= 2 ? 2 : 1;
        add_everything(b, machines, machine_count);
        if (open_crews(b, machines[0].cores))
            run_and_print(b);
        for (int c = 0; c < b->crew_count; c++)
            bench_crew_close(&b->crews[c]);
    }
    if (b)
        close_pool(&b->pool);
    free(b);
    return EXIT_SUCCESS;
}
