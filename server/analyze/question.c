/* An analysis is asked for as an attention call is, with v left out or not; so the call is read by
 * the same code. */
#include "server/analyze/question.h"

const char *const srv_analyze_tensors[SRV_ANALYZE_TENSORS] = {"q", "k", "v", "omega"};

static attn_status check_tensors(const srv_inputs *in, attn_error *error)
{
    const struct {
        const char *name;
        const srv_tensor *tensor;
    } needed[] = {{"q", in->q}, {"k", in->k}},
      other[] = {{"e", in->e}, {"f", in->f}, {"input", in->input}, {"key_mask", in->key_mask}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!needed[i].tensor)
            return attn_error_set(error, ATTN_INVALID, needed[i].name,
                                  "%s is missing; an analysis needs q and k, and v for advice",
                                  needed[i].name);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (other[i].tensor)
            return attn_error_set(error, ATTN_INVALID, other[i].name,
                                  "%s is not a tensor that an analysis takes, only q, k, v and "
                                  "omega; leave it out",
                                  other[i].name);
    return ATTN_OK;
}

static attn_status check_length(const char *name, int64_t rows, int64_t most, attn_error *error)
{
    if (rows <= most)
        return ATTN_OK;
    return attn_error_set(error, ATTN_UNSUPPORTED, name,
                          "%s has %lld rows, over the limit of %lld (analyze_max_n): the whole "
                          "matrix is decomposed; send a stretch of it, or raise the limit",
                          name, (long long)rows, (long long)most);
}

/* `features` and `seed` are short for the params of the same name. */
static attn_status read_short(const srv_options *options, srv_field field, const char *name,
                              srv_field long_form, attn_error *error)
{
    int64_t value = srv_options_int(options, field, 0);
    int64_t other = srv_options_int(options, long_form, value);
    if (!srv_options_given(options, field) || value == other)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, name,
                          "%s is %lld but params.%s is %lld; send one of them", name,
                          (long long)value, name, (long long)other);
}

static attn_status read_estimate(srv_question *question, const srv_options *options,
                                 attn_error *error)
{
    attn_mix_params *p = &question->call.params;
    attn_status status =
        read_short(options, SRV_FIELD_ESTIMATE_FEATURES, "features", SRV_FIELD_FEATURES, error);
    if (status == ATTN_OK)
        status = read_short(options, SRV_FIELD_ESTIMATE_SEED, "seed", SRV_FIELD_SEED, error);
    if (status != ATTN_OK)
        return status;
    int64_t features = srv_options_int(options, SRV_FIELD_ESTIMATE_FEATURES, p->features);
    if (p->omega && features != p->features)
        return attn_error_set(error, ATTN_INVALID, "features",
                              "features is %lld but omega has %lld rows", (long long)features,
                              (long long)p->features);
    p->features = features;
    p->seed = (uint64_t)srv_options_int(options, SRV_FIELD_ESTIMATE_SEED, (int64_t)p->seed);
    return ATTN_OK;
}

static bool has_window(const srv_question *question, int64_t window)
{
    for (int i = 0; i < question->window_count; i++)
        if (question->windows[i] == window)
            return true;
    return false;
}

/* Those that were asked for, or 1, 2, 4, ... below m. */
static attn_status read_windows(srv_question *question, const srv_options *options,
                                attn_error *error)
{
    const srv_value *asked = &options->values[SRV_FIELD_WINDOWS];
    if (!asked->given) {
        for (int64_t w = 1; w < question->call.shape.m || w == 1; w *= 2)
            question->windows[question->window_count++] = w;
        return ATTN_OK;
    }
    if (asked->integers.count > ATTN_MAX_WINDOWS)
        return attn_error_set(error, ATTN_INVALID, "windows",
                              "windows has %zu entries, expected at most %d", asked->integers.count,
                              ATTN_MAX_WINDOWS);
    for (size_t i = 0; i < asked->integers.count; i++)
        if (!has_window(question, asked->integers.data[i]))
            question->windows[question->window_count++] = asked->integers.data[i];
    return ATTN_OK;
}

attn_status srv_question_read(srv_question *question, const srv_inputs *inputs,
                              const srv_options *options, int64_t most, attn_error *error)
{
    *question = (srv_question){.inputs = *inputs, .advise = inputs->v != NULL};
    attn_status status = check_tensors(inputs, error);
    if (status != ATTN_OK)
        return status;
    if (!inputs->v)
        question->inputs.v = inputs->k;
    status = srv_call_read(&question->call, &question->inputs, options, error);
    if (status == ATTN_OK)
        status = check_length("q", question->call.shape.n, most, error);
    if (status == ATTN_OK)
        status = check_length("k", question->call.shape.m, most, error);
    if (status == ATTN_OK)
        status = read_estimate(question, options, error);
    if (status == ATTN_OK)
        status = read_windows(question, options, error);
    return status;
}

void srv_question_free(srv_question *question)
{
    srv_call_free(&question->call);
}
