/* An analysis's stages:
 *
 *   READ     the body, as for /v1/attend
 *   HEADS    (after the sizes are checked and memory is reserved) as many heads at a time as there
 *            are workers for background jobs; a phase is one step of each of them
 *   ADVICE   the sweep's trials, if there is a v
 *   PRINT    a head a tile
 *
 * Each head is a chain of steps in memory of its own, so the figures do not depend on how many run
 * at a time. */
#include "server/analyze/analyze.h"

#include "server/admission.h"
#include "server/analyze/advice.h"
#include "server/analyze/report.h"
#include "server/attend/intake.h"
#include "server/loop.h"

#include <stdlib.h>

enum {
    LISTS = 3, /* of figures that a report points to, equally long */
};
/* What printing costs, for the order in which jobs are served. */
#define PRINT_NS_PER_BYTE 20.0

typedef enum stage {
    READ,
    HEADS,
    ADVICE,
    PRINT,
} stage;

typedef struct analyze {
    srv_job job; /* first: the executor hands it back */
    srv_request *request;
    stage stage;
    srv_intake intake;
    srv_options options;
    srv_question question;
    attn_analysis analysis;
    int64_t head_count;        /* of all batch rows */
    int64_t workers;           /* that may run it at once */
    int64_t lanes;             /* heads at a time */
    double left_ns;            /* predicted work that no phase has been given yet */
    int64_t first, step;       /* of those that run: their first, and how far they are */
    attn_head_report *reports; /* (head_count) */
    double *figures;           /* what they point to */
    unsigned char *workspaces; /* (lanes) */
    srv_text *texts;           /* (head_count) */
    srv_advice advice;
    bool refused;
    srv_problem problem;
} analyze;

static analyze *of_job(srv_job *job)
{
    return (analyze *)(void *)job;
}

static bool refuse(analyze *a, srv_problem problem)
{
    a->refused = true;
    a->problem = problem;
    return false;
}

static size_t figures_of_head(const analyze *a)
{
    const attn_shape *s = &a->analysis.shape;
    return LISTS * (size_t)(s->n < s->m ? s->n : s->m);
}

static size_t lane_bytes(const analyze *a)
{
    return attn_arena_round(a->analysis.workspace_bytes);
}

static size_t scratch_bytes(const analyze *a)
{
    size_t advice = a->question.advise ? a->advice.scratch_bytes : 0;
    return advice > a->analysis.scratch_bytes ? advice : a->analysis.scratch_bytes;
}

static bool reserve(analyze *a)
{
    srv_request *request = a->request;
    double heads = (double)a->head_count;
    double bytes = sizeof *a + (double)a->lanes * (double)lane_bytes(a) +
                   (double)a->workers * (double)scratch_bytes(a) +
                   heads * ((double)figures_of_head(a) * sizeof(double) + sizeof *a->reports +
                            sizeof *a->texts + srv_report_head_bound(&a->analysis)) +
                   (double)srv_source_bytes(a->intake.source) + (double)request->body_room;
    if (a->question.advise)
        bytes += srv_advice_bytes(&a->advice) + srv_report_advice_bound(a->advice.count);
    size_t needed = srv_countable_bytes(bytes);
    srv_problem problem;
    return srv_admit_bytes(request->server, &request->share, needed, "the analysis", &problem) ||
           refuse(a, problem);
}

static bool open_heads(analyze *a)
{
    size_t heads = (size_t)a->head_count, values = figures_of_head(a) / LISTS;
    a->reports = calloc(heads, sizeof *a->reports);
    a->texts = calloc(heads, sizeof *a->texts);
    a->figures = malloc(heads * figures_of_head(a) * sizeof *a->figures);
    a->workspaces = aligned_alloc(ATTN_ALIGN, (size_t)a->lanes * lane_bytes(a));
    bool whole = a->reports && a->texts && a->figures && a->workspaces &&
                 (!a->question.advise || srv_advice_open(&a->advice));
    if (!whole)
        return refuse(a, srv_problem_from(ATTN_NO_MEMORY, NULL));
    for (size_t h = 0; h < heads; h++) {
        double *figures = a->figures + h * figures_of_head(a);
        a->reports[h].singular_values = figures;
        a->reports[h].score_singular_values = figures + values;
        a->reports[h].cumulative_energy = figures + 2 * values;
    }
    return true;
}

static attn_status decide(analyze *a, attn_error *error)
{
    const srv_server *server = a->request->server;
    srv_inputs inputs = srv_source_inputs(a->intake.source);
    attn_status status = srv_source_options(a->intake.source, SRV_FOR_ANALYZE, &a->options, error);
    if (status == ATTN_OK)
        status = srv_question_read(&a->question, &inputs, &a->options, server->config.analyze_max_n,
                                   error);
    if (status == ATTN_OK)
        status = attn_analysis_plan(&a->analysis, &server->machine, &a->question.call.params,
                                    &a->question.call.shape, a->question.windows,
                                    a->question.window_count, error);
    if (status == ATTN_OK && a->question.advise)
        status = srv_advice_plan(&a->advice, server, &a->question, error);
    return status;
}

static double print_ns(const analyze *a)
{
    return srv_report_head_bound(&a->analysis) * PRINT_NS_PER_BYTE;
}

/* After the last slice: false when the work ends here. */
static bool after_read(analyze *a)
{
    attn_error error = {0};
    attn_status status = decide(a, &error);
    if (status != ATTN_OK)
        return refuse(a, srv_problem_from(status, &error));
    if (!srv_source_needs_body(a->intake.source))
        srv_request_drop_body(a->request);
    srv_intake_set_deadline(&a->intake, &a->options, &a->job);
    a->head_count = a->question.call.shape.batch * a->question.call.shape.heads;
    a->workers = srv_executor_background_workers(a->request->server->workers);
    a->lanes = a->head_count < a->workers ? a->head_count : a->workers;
    a->left_ns = (double)a->head_count * (attn_analysis_ns(&a->analysis) + print_ns(a)) +
                 (a->question.advise ? srv_advice_ns(&a->advice) : 0);
    return reserve(a) && open_heads(a);
}

static int64_t running_heads(const analyze *a)
{
    int64_t left = a->head_count - a->first;
    return left < a->lanes ? left : a->lanes;
}

/* False when all heads are done. */
static bool next_step(analyze *a, attn_phase *phase)
{
    if (++a->step == a->analysis.steps) {
        a->step = 0;
        a->first += running_heads(a);
    }
    a->job.scratch_bytes = a->analysis.scratch_bytes;
    *phase = (attn_phase){"analyze", running_heads(a), 0};
    if (phase->tiles > 0)
        phase->tile_ns = attn_analysis_step_ns(&a->analysis, a->step);
    return phase->tiles > 0;
}

static void next_compute(analyze *a, attn_phase *phase)
{
    if (a->stage == HEADS) {
        if (next_step(a, phase))
            return;
        a->stage = ADVICE;
        a->job.scratch_bytes = a->advice.scratch_bytes;
    }
    if (a->question.advise && srv_advice_next(&a->advice, phase))
        return;
    a->stage = PRINT;
    a->job.scratch_bytes = 0;
    *phase = (attn_phase){"print", a->head_count, print_ns(a)};
}

static bool next(srv_job *job, attn_phase *phase)
{
    analyze *a = of_job(job);
    if (a->refused || a->stage == PRINT)
        return false;
    if (a->stage == READ) {
        if (srv_intake_next(&a->intake, job, phase))
            return true;
        if (!after_read(a))
            return false;
        a->stage = HEADS;
        a->step = -1;
    }
    next_compute(a, phase);
    a->left_ns -= (double)phase->tiles * phase->tile_ns;
    job->remaining_ns = a->left_ns > 0 ? a->left_ns : 0;
    return true;
}

/* Head `h` of all batch rows, in the lane that is its own meanwhile. */
static attn_status run_head(analyze *a, int64_t lane, attn_arena *scratch)
{
    const attn_shape *s = &a->question.call.shape;
    const srv_inputs *in = &a->question.inputs;
    int64_t h = a->first + lane, b = h / s->heads;
    int64_t kv = b * s->kv_heads + h % s->heads / (s->heads / s->kv_heads);
    const attn_analysis_io io = {
        .q = in->q->data + h * s->n * s->d,
        .k = in->k->data + kv * s->m * s->d,
        .q_row = s->d,
        .k_row = s->d,
        .workspace = a->workspaces + (size_t)lane * lane_bytes(a),
        .report = &a->reports[h],
    };
    return attn_analysis_run(&a->analysis, &io, a->step, scratch);
}

static attn_status run(srv_job *job, int64_t tile, attn_arena *scratch)
{
    analyze *a = of_job(job);
    srv_problem problem;
    switch (a->stage) {
    case READ:
        if (!srv_intake_run(&a->intake, &problem))
            refuse(a, problem);
        return ATTN_OK;
    case HEADS:
        return run_head(a, tile, scratch);
    case ADVICE:
        return srv_advice_run(&a->advice, tile, scratch);
    case PRINT:
        break;
    }
    srv_report_head(&a->texts[tile], &a->analysis, &a->reports[tile]);
    return a->texts[tile].failed ? ATTN_NO_MEMORY : ATTN_OK;
}

static void release(analyze *a)
{
    for (int64_t h = 0; a->texts && h < a->head_count; h++)
        srv_text_free(&a->texts[h]);
    free(a->texts);
    free(a->reports);
    free(a->figures);
    free(a->workspaces);
    srv_advice_close(&a->advice);
    srv_question_free(&a->question);
    srv_options_free(&a->options);
    srv_intake_close(&a->intake);
    srv_request_drop_body(a->request);
}

static void note_failure(analyze *a)
{
    if (a->job.status == ATTN_NON_FINITE)
        refuse(a, srv_problem_make(SRV_PROBLEM_NON_FINITE, "v",
                                   "exact attention of these q, k and v overflows float32, so "
                                   "there is nothing to hold the backends against; scale v down, "
                                   "or leave it out"));
    else
        refuse(a, srv_problem_from(a->job.status, NULL));
}

static void done(srv_job *job)
{
    analyze *a = of_job(job);
    if (!a->refused && job->status != ATTN_OK)
        note_failure(a);
    const srv_report report = {.id = a->request->id.text,
                               .heads = a->texts,
                               .head_count = a->head_count,
                               .trials = a->advice.trials,
                               .trial_count = a->advice.count,
                               .answer = &a->request->answer};
    if (!a->refused && !srv_report_write(&report))
        refuse(a, srv_problem_from(ATTN_NO_MEMORY, NULL));
    release(a);
    srv_loop_finished(a->request->server->loop, a->request);
}

static void end_work(void *work)
{
    analyze *a = work;
    if (a->refused)
        srv_request_refuse(a->request, a->problem);
    free(a);
}

void srv_analyze_start(srv_request *request)
{
    srv_problem problem;
    if (!srv_admit_background(request->server, &problem)) {
        srv_request_refuse(request, problem);
        return;
    }
    analyze *a = calloc(1, sizeof *a);
    if (!a || !srv_intake_open(&a->intake, request, &a->job)) {
        free(a);
        srv_request_refuse(request, srv_problem_from(ATTN_NO_MEMORY, NULL));
        return;
    }
    a->request = request;
    a->job.next = next;
    a->job.run = run;
    a->job.done = done;
    a->job.background = true;
    srv_request_start(request, &a->job, a, end_work);
}
