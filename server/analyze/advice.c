/* Trials one after the other: a plan's phases, then a comparison, a head a tile. */
#include "server/analyze/advice.h"

#include <math.h>
#include <stdlib.h>

/* Of comparing; about right is enough. */
#define COMPARE_NS_PER_FLOAT 1.0

static int64_t head_count(const srv_advice *advice)
{
    const attn_shape *s = &advice->question->call.shape;
    return s->batch * s->heads;
}

static int64_t head_floats(const srv_advice *advice)
{
    const attn_shape *s = &advice->question->call.shape;
    return s->n * s->dv;
}

static attn_status plan(const srv_advice *advice, const attn_trial *trial, attn_plan *to,
                        attn_error *error)
{
    return attn_mixer_plan(trial->mixer, advice->machine, &trial->params,
                           &advice->question->call.shape, to, error);
}

/* As it is printed, so that the order of the answer is that of its figures. */
static double round_to_ns(double ms)
{
    return round(ms * 1e6) / 1e6;
}

attn_status srv_advice_plan(srv_advice *advice, const srv_server *server,
                            const srv_question *question, attn_error *error)
{
    *advice = (srv_advice){.question = question, .machine = &server->machine};
    const srv_call *call = &question->call;
    int swept = attn_sweep(&call->params, &call->shape, question->windows, question->window_count,
                           advice->trials);
    attn_status status = plan(advice, &advice->trials[0], &advice->plan, error);
    for (int i = 0; i < swept && status == ATTN_OK; i++) {
        attn_trial trial = advice->trials[i];
        attn_plan planned;
        if (plan(advice, &trial, &planned, NULL) != ATTN_OK)
            continue;
        trial.predicted_ms = round_to_ns(attn_plan_elapsed_ms(&planned, server->workers));
        advice->trials[advice->count++] = trial;
        if (planned.shared_bytes > advice->shared_bytes)
            advice->shared_bytes = planned.shared_bytes;
        if (planned.scratch_bytes > advice->scratch_bytes)
            advice->scratch_bytes = planned.scratch_bytes;
    }
    return status;
}

double srv_advice_bytes(const srv_advice *advice)
{
    return (double)head_count(advice) *
               (2 * (double)head_floats(advice) * sizeof(float) + 2 * sizeof(double)) +
           (double)attn_arena_round(advice->shared_bytes);
}

double srv_advice_ns(const srv_advice *advice)
{
    double ns = 0;
    for (int i = 0; i < advice->count; i++) {
        attn_plan planned;
        if (plan(advice, &advice->trials[i], &planned, NULL) == ATTN_OK)
            ns += attn_plan_ns(&planned);
    }
    return ns;
}

static attn_view view_of(const srv_tensor *t, int64_t heads, int64_t rows, int64_t columns)
{
    return attn_view_dense(t->data, heads, rows, columns);
}

bool srv_advice_open(srv_advice *advice)
{
    const srv_inputs *in = &advice->question->inputs;
    const attn_shape *s = &advice->question->call.shape;
    size_t floats = (size_t)(head_count(advice) * head_floats(advice));
    size_t shared = attn_arena_round(advice->shared_bytes);
    advice->exact = malloc(floats * sizeof *advice->exact);
    advice->out = malloc(floats * sizeof *advice->out);
    advice->sums = calloc(2 * (size_t)head_count(advice), sizeof *advice->sums);
    advice->io = (attn_mix_io){
        .q = view_of(in->q, s->heads, s->n, s->d),
        .k = view_of(in->k, s->kv_heads, s->m, s->d),
        .v = view_of(in->v, s->kv_heads, s->m, s->dv),
        .shared = shared ? aligned_alloc(ATTN_ALIGN, shared) : NULL,
    };
    advice->phase = -1;
    return advice->exact && advice->out && advice->sums && (!shared || advice->io.shared);
}

static float *answer_of(const srv_advice *advice)
{
    return advice->at == 0 ? advice->exact : advice->out;
}

/* The trial that has been compared: add up its heads, in their order. An overflow of the backend
 * makes it NaN, which is what it is. */
static void settle(srv_advice *advice)
{
    double difference = 0, whole = 0;
    for (int64_t h = 0; h < head_count(advice); h++) {
        difference += advice->sums[2 * h];
        whole += advice->sums[2 * h + 1];
    }
    double relative = difference == 0 ? 0 : sqrt(difference / whole);
    advice->trials[advice->at].relative_l2 = isfinite(relative) ? relative : NAN;
}

bool srv_advice_next(srv_advice *advice, attn_phase *phase)
{
    if (advice->phase == advice->plan.phase_count) {
        settle(advice);
        if (++advice->at == advice->count) {
            attn_sweep_order(advice->trials, advice->count);
            return false;
        }
        plan(advice, &advice->trials[advice->at], &advice->plan, NULL);
        advice->phase = -1;
    }
    advice->phase++;
    const attn_shape *s = &advice->question->call.shape;
    advice->io.out = attn_view_dense(answer_of(advice), s->heads, s->n, s->dv);
    *phase = advice->phase < advice->plan.phase_count
                 ? advice->plan.phases[advice->phase]
                 : (attn_phase){"compare", head_count(advice),
                                (double)head_floats(advice) * COMPARE_NS_PER_FLOAT};
    return true;
}

static attn_status compare(srv_advice *advice, int64_t head)
{
    int64_t count = head_floats(advice);
    const float *exact = advice->exact + head * count, *out = answer_of(advice) + head * count;
    double difference = 0, whole = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = (double)out[i] - (double)exact[i];
        difference += off * off;
        whole += (double)exact[i] * (double)exact[i];
    }
    advice->sums[2 * head] = difference;
    advice->sums[2 * head + 1] = whole;
    return isfinite(whole) ? ATTN_OK : ATTN_NON_FINITE;
}

attn_status srv_advice_run(srv_advice *advice, int64_t tile, attn_arena *scratch)
{
    if (advice->phase == advice->plan.phase_count)
        return compare(advice, tile);
    return advice->plan.mixer->run(&advice->plan, &advice->io, advice->phase, tile, scratch);
}

void srv_advice_close(srv_advice *advice)
{
    free(advice->exact);
    free(advice->out);
    free(advice->sums);
    free(advice->io.shared);
}
