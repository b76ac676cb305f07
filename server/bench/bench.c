/* Rounds of one n: everything that is compared runs by turns, so that a neighbour's load falls on
 * all of it alike. The work goes through the daemon's own executor. */
#include "server/bench/bench.h"
#include "server/clock.h"

#include "attn/blas.h"
#include "server/bench/report.h"

#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2
};

typedef struct bench {
    srv_bench_options options;
    attn_machine machine;
    srv_bench_subject subject;
    int workers;
    srv_executor *executor;
    srv_bench_round round;
    double progress_ns; /* when something was last said on stderr */
} bench;

static void print_help(void)
{
    fputs(
        "usage: attnd bench [--flag value]...\n"
        "\n"
        "Time every backend on random tensors, on the daemon's executor: median [min-max] ms,\n"
        "GFLOP/s of the backend's own work and its ratio to OpenBLAS's sgemm of 2048 on as many\n"
        "workers in the same run, how many times as fast as exact it is, and the workspace that\n"
        "was predicted and measured. Where there is a target for such sizes it stands beside:\n"
        "ok, MISSED, or unlike, when sgemm runs with other instructions than the backend, as an\n"
        "AVX2 sgemm beside AVX-512 kernels; OPENBLAS_CORETYPE chooses it.\n"
        "\n"
        "With --model every backend of the folder's model is timed on random hidden states, with\n"
        "the sizes and parameters the model has; GFLOP/s are then those of its linear maps, so\n"
        "that a ratio to sgemm of 1 would mean that everything else took no time.\n"
        "\n"
        "flags, with [defaults]:\n",
        stdout);
    srv_bench_options_help(stdout);
}

static int complain(const attn_error *error)
{
    fprintf(stderr, "attnd: %s\n", error->message);
    return error->status == ATTN_INVALID || error->status == ATTN_UNSUPPORTED ? EXIT_USAGE
                                                                              : EXIT_FAILURE;
}

/* Where a run is, every few seconds. */
static void tell(bench *b, const char *what, int64_t repetition)
{
    const double every_ns = 3e9;
    double now = (double)srv_now_ns();
    if (now - b->progress_ns < every_ns)
        return;
    b->progress_ns = now;
    fprintf(stderr, "attnd bench: n %lld, repetition %lld of %lld, %s\n", (long long)b->round.n,
            (long long)repetition, (long long)b->options.repeat, what);
}

/* Every task of the round; the backends that refuse keep their reason. */
static attn_status open_tasks(bench *b, const srv_bench_pool *pool, attn_error *error)
{
    srv_bench_round *r = &b->round;
    r->sgemm = srv_bench_sgemm_task(pool, b->workers);
    for (; r->count < b->subject.count; r->count++) {
        attn_error *refusal = &r->refusal[r->count];
        attn_status status =
            srv_bench_subject_task(&b->subject, r->n, r->count, pool, &r->task[r->count], refusal);
        if (status != ATTN_OK && status != ATTN_UNSUPPORTED) {
            *error = *refusal;
            return status;
        }
    }
    return ATTN_OK;
}

static attn_status run_one(bench *b, srv_bench_task *task, int64_t repetition, attn_error *error)
{
    tell(b, task->label, repetition);
    attn_status status = srv_bench_task_run(task, b->executor, repetition > 0);
    return status == ATTN_OK ? ATTN_OK
                             : attn_error_set(error, status, NULL, "%s: %s", task->label,
                                              attn_status_name(status));
}

/* Repetition 0 is not recorded: pages, clocks and OpenBLAS's buffers warm up. */
static attn_status run_tasks(bench *b, attn_error *error)
{
    srv_bench_round *r = &b->round;
    attn_status status = ATTN_OK;
    for (int64_t repetition = 0; repetition <= b->options.repeat; repetition++) {
        if (status == ATTN_OK)
            status = run_one(b, &r->sgemm, repetition, error);
        for (int i = 0; i < r->count && status == ATTN_OK; i++)
            if (r->refusal[i].status == ATTN_OK)
                status = run_one(b, &r->task[i], repetition, error);
    }
    return status;
}

static attn_status run_round(bench *b, int64_t n, attn_error *error)
{
    srv_bench_pool pool = {0};
    b->round = (srv_bench_round){.n = n};
    attn_status status = srv_bench_subject_pool(&b->subject, n, &pool, error);
    if (status == ATTN_OK)
        status = open_tasks(b, &pool, error);
    if (status == ATTN_OK)
        status = run_tasks(b, error);
    for (int i = 0; i < SRV_BENCH_MOST_BACKENDS; i++)
        srv_bench_task_close(&b->round.task[i]);
    srv_bench_pool_close(&pool);
    return status;
}

static void flush(srv_text *text)
{
    if (text->data)
        fwrite(text->data, 1, text->length, stdout);
    fflush(stdout);
    srv_text_rewind(text, 0);
}

static attn_status run(bench *b, attn_error *error)
{
    srv_text text = SRV_TEXT_EMPTY;
    attn_status status = ATTN_OK;
    srv_bench_print_head(&text, &b->subject);
    for (int i = 0; i < b->options.n.count && status == ATTN_OK; i++) {
        flush(&text);
        status = run_round(b, b->options.n.value[i], error);
        if (status == ATTN_OK)
            srv_bench_print_round(&text, &b->subject, &b->round, i == 0);
    }
    if (status == ATTN_OK)
        srv_bench_print_end(&text, &b->subject);
    if (text.failed)
        status = attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for the table");
    flush(&text);
    srv_text_free(&text);
    return status;
}

static attn_status start(bench *b, char *const *arguments, attn_error *error)
{
    attn_status status = srv_bench_options_read(&b->options, arguments, error);
    if (status == ATTN_OK)
        status = attn_machine_probe(&b->machine, b->options.isa, error);
    if (status != ATTN_OK)
        return status;
    int64_t wanted = b->options.workers ? b->options.workers : b->machine.cores;
    b->workers = (int)(wanted < SRV_MAX_WORKERS ? wanted : SRV_MAX_WORKERS);
    status = srv_bench_subject_open(&b->subject, &b->options, &b->machine, b->workers, error);
    if (status != ATTN_OK)
        return status;
    attn_blas_init();
    status = attn_machine_calibrate(&b->machine, error);
    if (status != ATTN_OK)
        return status;
    b->executor = srv_executor_open(b->workers, error);
    return b->executor ? ATTN_OK : error->status;
}

int srv_bench(char *const *arguments)
{
    for (char *const *argument = arguments; *argument; argument++)
        if (strcmp(*argument, "--help") == 0 || strcmp(*argument, "-h") == 0) {
            print_help();
            return EXIT_SUCCESS;
        }
    attn_error error = {0};
    bench *b = calloc(1, sizeof *b);
    if (!b) {
        attn_error_set(&error, ATTN_NO_MEMORY, NULL, "no memory to begin with");
        return complain(&error);
    }
    b->progress_ns = (double)srv_now_ns();
    attn_status status = start(b, arguments, &error);
    if (status == ATTN_OK)
        status = run(b, &error);
    srv_bench_subject_close(&b->subject);
    srv_executor_close(b->executor);
    free(b);
    return status == ATTN_OK ? EXIT_SUCCESS : complain(&error);
}
