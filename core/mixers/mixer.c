/* The registry of mixers, and what every mixer's plan has to check. */
#include "attn/mixer.h"

#include "mixers/mixers.h"

#include <math.h>
#include <string.h>

const attn_mixer *const attn_mixers[] = {
#define MIXER(name) &attn_mixer_##name,
#include "mixers/mixers.def"
#undef MIXER
    NULL,
};

const attn_mixer *attn_mixer_find(const char *name)
{
    for (const attn_mixer *const *m = attn_mixers; *m; m++)
        if (strcmp((*m)->name, name) == 0)
            return *m;
    return NULL;
}

static attn_status check_sizes(const attn_shape *s, attn_error *error)
{
    const int64_t most = INT32_MAX; /* rows and columns are counted in int inside a tile */
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"batch", s->batch}, {"heads", s->heads}, {"kv_heads", s->kv_heads},
                 {"n", s->n},         {"m", s->m},         {"d", s->d},
                 {"dv", s->dv}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > most)
            return attn_error_set(error, ATTN_INVALID, sizes[i].name,
                                  "%s is %lld, expected 1 to %lld", sizes[i].name,
                                  (long long)sizes[i].value, (long long)most);
    if (s->heads % s->kv_heads != 0)
        return attn_error_set(error, ATTN_INVALID, "k",
                              "q has %lld heads, which %lld heads of k and v do not divide evenly",
                              (long long)s->heads, (long long)s->kv_heads);
    return ATTN_OK;
}

static attn_status check_params(const attn_mix_params *p, const attn_shape *s, attn_error *error)
{
    if (!isfinite(p->scale) || p->scale == 0)
        return attn_error_set(error, ATTN_INVALID, "scale",
                              "scale is %g, expected a finite number other than 0", p->scale);
    for (int64_t b = 0; p->mask.lengths && b < s->batch; b++)
        if (p->mask.lengths[b] < 0 || p->mask.lengths[b] > s->m)
            return attn_error_set(error, ATTN_INVALID, "lengths",
                                  "lengths[%lld] is %lld, expected 0 to the %lld keys there are",
                                  (long long)b, (long long)p->mask.lengths[b], (long long)s->m);
    return ATTN_OK;
}

attn_status attn_mixer_plan(const attn_mixer *mixer, const attn_machine *machine,
                            const attn_mix_params *params, const attn_shape *shape, attn_plan *plan,
                            attn_error *error)
{
    attn_status status = check_sizes(shape, error);
    if (status == ATTN_OK)
        status = check_params(params, shape, error);
    if (status == ATTN_OK && params->mask.causal && !(mixer->traits & ATTN_CAUSAL))
        status = attn_error_set(error, ATTN_UNSUPPORTED, "causal",
                                "%s has no causal form; use exact or window", mixer->name);
    if (status == ATTN_OK)
        status = mixer->plan(machine, params, shape, plan, error);
    return status;
}
