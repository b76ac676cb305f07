/* The one place where raw calls and models part: names, sizes and tasks. */
#include "server/bench/subject.h"

#include "attn/nearest.h"
#include "server/flags.h"
#include "server/text.h"

#include <string.h>

static const char *mixer_at(int index)
{
    return attn_mixers[index] ? attn_mixers[index]->name : NULL;
}

static attn_status add(srv_bench_subject *s, const char *name, attn_error *error)
{
    if (s->count == SRV_BENCH_MOST_BACKENDS)
        return attn_error_set(error, ATTN_INVALID, "backends",
                              "bench: --backends has more than %d values", SRV_BENCH_MOST_BACKENDS);
    s->backends[s->count++] = name;
    return ATTN_OK;
}

static attn_status add_mixer(srv_bench_subject *s, const char *name, attn_error *error)
{
    const attn_mixer *mixer = attn_mixer_find(name);
    const char *nearest = attn_nearest(name, mixer_at);
    if (!mixer)
        return attn_error_set(error, ATTN_INVALID, "backends",
                              "bench: unknown backend \"%.40s\"; %s%s%s, and those of a model "
                              "need --model",
                              name, nearest ? "the nearest is \"" : "attnd --help",
                              nearest ? nearest : " lists those there are", nearest ? "\"" : "");
    return add(s, mixer->name, error);
}

static attn_status add_of_model(srv_bench_subject *s, const char *name, attn_error *error)
{
    const attn_model_info *info = attn_model_info_of(s->model);
    int index = attn_model_find_backend(s->model, name);
    if (index >= 0)
        return add(s, info->backends[index].name, error);
    char known[200];
    srv_text text = srv_text_lend(known, sizeof known);
    for (int i = 0; i < info->backend_count; i++)
        srv_text_format(&text, "%s%s", i ? ", " : "", info->backends[i].name);
    return attn_error_set(error, ATTN_INVALID, "backends",
                          "bench: the model has no backend \"%.40s\"; it has %s", name, known);
}

static attn_status add_all(srv_bench_subject *s, attn_error *error)
{
    const attn_model_info *info = s->model ? attn_model_info_of(s->model) : NULL;
    attn_status status = ATTN_OK;
    for (int i = 0; info && i < info->backend_count && status == ATTN_OK; i++)
        status = add(s, info->backends[i].name, error);
    for (int i = 0; !info && attn_mixers[i] && status == ATTN_OK; i++)
        status = add(s, attn_mixers[i]->name, error);
    return status;
}

static attn_status find_backends(srv_bench_subject *s, attn_error *error)
{
    const char *list = s->options->backends;
    char item[64];
    attn_status status = *list ? ATTN_OK : add_all(s, error);
    while (status == ATTN_OK && srv_flag_next_item(&list, item))
        status = s->model ? add_of_model(s, item, error) : add_mixer(s, item, error);
    return status;
}

static attn_status open_model(srv_bench_subject *s, attn_error *error)
{
    const char *folder = s->options->model;
    s->model = attn_model_open(folder, folder, error);
    if (!s->model)
        return error->status;
    attn_causality causality = attn_model_info_of(s->model)->causal;
    if (causality == ATTN_CAUSAL_NEVER && s->options->causal)
        return attn_error_set(error, ATTN_INVALID, "causal",
                              "bench: --causal, but this model lets every position see all others");
    s->causal = s->options->causal || causality == ATTN_CAUSAL_ALWAYS;
    return ATTN_OK;
}

attn_status srv_bench_subject_open(srv_bench_subject *subject, const srv_bench_options *options,
                                   const attn_machine *machine, int workers, attn_error *error)
{
    *subject = (srv_bench_subject){
        .options = options, .machine = machine, .workers = workers, .causal = options->causal};
    attn_status status = *options->model ? open_model(subject, error) : ATTN_OK;
    return status == ATTN_OK ? find_backends(subject, error) : status;
}

void srv_bench_subject_close(srv_bench_subject *subject)
{
    attn_model_close(subject->model);
    subject->model = NULL;
}

attn_status srv_bench_subject_pool(const srv_bench_subject *subject, int64_t n,
                                   srv_bench_pool *pool, attn_error *error)
{
    const srv_bench_options *o = subject->options;
    size_t rows = (size_t)o->batch * (size_t)n, row = rows * (size_t)o->d;
    srv_bench_sizes sizes = {
        .q = row * (size_t)o->heads,
        .k = row * (size_t)o->kv_heads,
        .v = row * (size_t)o->kv_heads,
        .out = row * (size_t)o->heads,
        .e = o->drawn ? 0 : (size_t)n * (size_t)o->k,
        .omega = o->drawn ? 0 : (size_t)o->d * (size_t)o->features,
    };
    if (subject->model) {
        sizes = (srv_bench_sizes){0};
        sizes.q = sizes.out = rows * (size_t)attn_model_info_of(subject->model)->hidden;
    }
    sizes.products = subject->workers;
    return srv_bench_pool_open(pool, &sizes, error);
}

static attn_mix_params params_of(const srv_bench_subject *s, int64_t n, const srv_bench_pool *pool)
{
    const srv_bench_options *o = s->options;
    attn_mix_params params;
    attn_mix_params_init(&params, o->d);
    params.mask.causal = s->causal;
    params.window = o->window;
    params.k = o->k;
    params.features = o->features;
    if (o->drawn)
        return params;
    params.projection = ATTN_GIVEN;
    params.e = params.f = pool->e;
    params.projection_heads = 1;
    params.projection_length = n;
    params.omega = pool->omega;
    return params;
}

static attn_status model_task(const srv_bench_subject *s, int64_t n, int index,
                              const srv_bench_pool *pool, srv_bench_task *task, attn_error *error)
{
    const int backend = attn_model_find_backend(s->model, s->backends[index]);
    attn_model_call call = {.backend = backend,
                            .adapter = -1,
                            .batch = s->options->batch,
                            .n = n,
                            .mix = attn_model_info_of(s->model)->backends[backend].mix};
    call.mix.mask.causal = s->causal;
    return srv_bench_model_task(task, pool, s->model, s->machine, &call, s->workers, error);
}

attn_status srv_bench_subject_task(const srv_bench_subject *subject, int64_t n, int index,
                                   const srv_bench_pool *pool, srv_bench_task *task,
                                   attn_error *error)
{
    if (subject->model)
        return model_task(subject, n, index, pool, task, error);
    const srv_bench_options *o = subject->options;
    const attn_shape shape = {o->batch, o->heads, o->kv_heads, n, n, o->d, o->d};
    const attn_mix_params params = params_of(subject, n, pool);
    return srv_bench_attend_task(task, pool, attn_mixer_find(subject->backends[index]),
                                 subject->machine, &shape, &params, subject->workers, error);
}
