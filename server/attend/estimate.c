/* Sampled errors. */
#include "server/attend/estimate.h"

#include <math.h>
#include <string.h>

/* A number in [0, 1) that depends on the id alone: FNV-1a, whose last bytes hardly reach the high
 * bits, finished as splitmix64 is, so that ids that count up are not drawn in blocks. */
static double draw(const char *id)
{
    uint64_t hash = 0xCBF29CE484222325U;
    for (; *id; id++)
        hash = (hash ^ (unsigned char)*id) * 0x100000001B3U;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9U;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBU;
    hash ^= hash >> 31;
    return (double)(hash >> 11) * 0x1p-53;
}

void srv_estimate_plan(srv_call *call, const srv_request *request, const srv_options *options)
{
    call->wants_estimate = srv_options_bool(options, SRV_FIELD_MEASURE_ERROR, false);
    call->max_relative_error = srv_options_real(options, SRV_FIELD_MAX_RELATIVE_ERROR, 0);
    bool asked = call->wants_estimate || call->max_relative_error > 0;
    call->sampled_for_metrics =
        !asked && draw(request->id.text) < request->server->config.error_sample_rate;
    if (asked || call->sampled_for_metrics)
        call->sampling = (attn_sampling){
            .rows = ATTN_SAMPLES, .seed = (uint64_t)srv_options_int(options, SRV_FIELD_SEED, 0)};
}

void srv_estimate_note(const srv_call *call, srv_request *request, const char *backend,
                       attn_deviation deviation)
{
    srv_account *account = &request->account;
    if (deviation.rows == 0 || account->measured_count == SRV_MEASURED_MAX)
        return;
    account->measured[account->measured_count++] =
        (srv_measured){backend, deviation.rows, deviation.relative_l2};
    if (call->model)
        srv_experience_note(&request->server->experience, attn_model_info_of(call->model)->name,
                            backend, deviation.relative_l2);
}

/* A NaN is not allowed. */
bool srv_estimate_is_allowed(const srv_call *call, attn_deviation deviation)
{
    return call->max_relative_error <= 0 || deviation.rows == 0 ||
           deviation.relative_l2 <= call->max_relative_error;
}

bool srv_estimate_exists(const srv_call *call, const attn_candidate *chosen)
{
    bool one_layer = !call->model || strcmp(attn_model_info_of(call->model)->type, "layer") == 0;
    return one_layer && (chosen->exact || chosen->measurable);
}

/* An exact answer of nothing but zeros leaves no scale to measure on: then the distance is null. */
void srv_estimate_print(const srv_call *call, const attn_candidate *chosen,
                        attn_deviation deviation, srv_text *text)
{
    if (!srv_estimate_exists(call, chosen)) {
        srv_text_string(text, "null");
        return;
    }
    srv_text_string(text, "{\"relative_l2\": ");
    if (isfinite(deviation.relative_l2))
        srv_text_figure(text, deviation.relative_l2);
    else
        srv_text_string(text, "null");
    srv_text_format(text, ", \"rows_sampled\": %lld}", (long long)deviation.rows);
}
