/* Trials one after the other: a plan's phases, then a comparison, a head a tile. */
#include "server/analyze/advice.h"

#include "server/cost/forecast.h"

#include <math.h>
#include <stdlib.h>

enum {
    PROGRAM_BYTES = sizeof(attn_plan) + 1024, /* of one of these programs at most */
};
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

/* As it is printed, so that the order of the answer is that of its figures. */
static double round_to_ns(double ms)
{
    return round(ms * 1e6) / 1e6;
}

/* Keep the trial if its backend can do it. */
static attn_status consider(srv_advice *advice, const srv_server *server, attn_trial trial,
                            attn_error *error)
{
    attn_program *program;
    attn_error refusal = {0};
    attn_status status = attn_program_attend(&program, &server->machine, trial.mixer, &trial.params,
                                             &advice->question->call.shape, NULL, &refusal);
    if (status != ATTN_OK) {
        bool needed = advice->count == 0 || status == ATTN_NO_MEMORY;
        return needed ? attn_error_set(error, status, refusal.param, "%s", refusal.message)
                      : ATTN_OK;
    }
    size_t shared = attn_program_shared_bytes(program);
    size_t scratch = attn_program_scratch_bytes(program);
    advice->shared_bytes = shared > advice->shared_bytes ? shared : advice->shared_bytes;
    advice->scratch_bytes = scratch > advice->scratch_bytes ? scratch : advice->scratch_bytes;
    const attn_crew crew = srv_forecast_crew(server);
    trial.predicted_ms = round_to_ns(attn_program_ns(program, &crew) * 1e-6);
    advice->programs[advice->count] = program;
    advice->trials[advice->count++] = trial;
    return ATTN_OK;
}

attn_status srv_advice_plan(srv_advice *advice, const srv_server *server,
                            const srv_question *question, attn_error *error)
{
    *advice = (srv_advice){.question = question, .phase = -1};
    const srv_call *call = &question->call;
    attn_status status = ATTN_OK;
    int swept = attn_sweep(&call->params, &call->shape, question->windows, question->window_count,
                           advice->trials);
    for (int i = 0; i < swept && status == ATTN_OK; i++)
        status = consider(advice, server, advice->trials[i], error);
    return status;
}

double srv_advice_bytes(const srv_advice *advice)
{
    return (double)head_count(advice) *
               (2 * (double)head_floats(advice) * sizeof(float) + 2 * sizeof(double)) +
           (double)attn_arena_round(advice->shared_bytes) + advice->count * (double)PROGRAM_BYTES;
}

double srv_advice_ns(const srv_advice *advice)
{
    double ns = 0;
    for (int i = 0; i < advice->count; i++)
        ns += attn_program_remaining_ns(advice->programs[i], 0);
    return ns;
}

bool srv_advice_open(srv_advice *advice)
{
    const srv_inputs *in = &advice->question->inputs;
    float **data = advice->frame.data;
    size_t floats = (size_t)(head_count(advice) * head_floats(advice));
    size_t shared = attn_arena_round(advice->shared_bytes);
    advice->exact = malloc(floats * sizeof *advice->exact);
    advice->out = malloc(floats * sizeof *advice->out);
    advice->sums = calloc(2 * (size_t)head_count(advice), sizeof *advice->sums);
    data[ATTN_ARRAY_Q] = in->q->data;
    data[ATTN_ARRAY_K] = in->k->data;
    data[ATTN_ARRAY_V] = in->v->data;
    data[ATTN_ARRAY_SHARED] = shared ? aligned_alloc(ATTN_ALIGN, shared) : NULL;
    return advice->exact && advice->out && advice->sums && (!shared || data[ATTN_ARRAY_SHARED]);
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

static bool is_compared(const srv_advice *advice)
{
    return advice->phase == attn_program_phases(advice->programs[advice->at]);
}

bool srv_advice_next(srv_advice *advice, attn_phase *phase)
{
    if (is_compared(advice)) {
        settle(advice);
        if (++advice->at == advice->count) {
            attn_sweep_order(advice->trials, advice->count);
            return false;
        }
        advice->phase = -1;
    }
    advice->phase++;
    advice->frame.data[ATTN_ARRAY_OUT] = answer_of(advice);
    *phase = is_compared(advice) ? (attn_phase){"compare", head_count(advice),
                                                (double)head_floats(advice) * COMPARE_NS_PER_FLOAT}
                                 : attn_program_phase(advice->programs[advice->at], advice->phase);
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
    if (is_compared(advice))
        return compare(advice, tile);
    return attn_program_run(advice->programs[advice->at], &advice->frame, advice->phase, tile,
                            scratch);
}

void srv_advice_close(srv_advice *advice)
{
    for (int i = 0; i < advice->count; i++)
        attn_program_close(advice->programs[i]);
    free(advice->exact);
    free(advice->out);
    free(advice->sums);
    free(advice->frame.data[ATTN_ARRAY_SHARED]);
}
