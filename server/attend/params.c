/* Options to parameters. What a backend does not use is simply not looked at by it. */
#include "server/attend/params.h"

#include <string.h>

/* The index of a word among those an option allows. */
static attn_status read_word(const srv_options *options, srv_field field, const char *path,
                             int *index, attn_error *error)
{
    const char *const *words = srv_options_words(field);
    const char *found = srv_options_string(options, field, words[*index]);
    for (*index = 0; words[*index]; ++*index)
        if (strcmp(found, words[*index]) == 0)
            return ATTN_OK;
    const char *rest = words[2] ? ", " : " or ";
    return attn_error_set(error, ATTN_INVALID, path, "%s is \"%.32s\", expected %s%s%s%s%s", path,
                          found, words[0], rest, words[1], words[2] ? " or " : "",
                          words[2] ? words[2] : "");
}

static attn_status read_words(attn_mix_params *p, const srv_options *options, attn_error *error)
{
    int pattern = (int)p->pattern, norm = (int)p->norm;
    /* A model's own matrices have no word. */
    int projection = p->projection == ATTN_GIVEN ? 0 : (int)p->projection;
    attn_status status = read_word(options, SRV_FIELD_PATTERN, "params.pattern", &pattern, error);
    if (status == ATTN_OK)
        status = read_word(options, SRV_FIELD_PROJECTION, "params.projection", &projection, error);
    if (status == ATTN_OK)
        status = read_word(options, SRV_FIELD_NORM, "params.norm", &norm, error);
    if (status != ATTN_OK)
        return status;
    p->pattern = (attn_pattern)pattern;
    if (p->projection != ATTN_GIVEN)
        p->projection = (attn_projection)projection;
    p->norm = (attn_norm)norm;
    return ATTN_OK;
}

static attn_status check_projection(const char *name, const srv_tensor *t, const attn_shape *shape,
                                    attn_error *error)
{
    char found[SRV_SHAPE_MAX];
    if (t->rank == 2 || (t->rank == 3 && (t->dim[0] == shape->kv_heads || t->dim[0] == 1)))
        return ATTN_OK;
    srv_tensor_shape(found, t->dim, t->rank);
    return attn_error_set(error, ATTN_INVALID, name,
                          "%s is %s, expected [k,length] or [%lld,k,length]", name, found,
                          (long long)shape->kv_heads);
}

static attn_status read_projection(attn_mix_params *p, const attn_shape *shape,
                                   const srv_inputs *in, const srv_options *options,
                                   attn_error *error)
{
    if (!in->e && in->f)
        return attn_error_set(error, ATTN_INVALID, "e", "f is given without e");
    if (!in->e)
        return ATTN_OK;
    const srv_tensor *e = in->e, *f = in->f ? in->f : e;
    attn_status status = check_projection("e", e, shape, error);
    if (status == ATTN_OK)
        status = check_projection("f", f, shape, error);
    if (status != ATTN_OK)
        return status;
    if (f->rank != e->rank || memcmp(f->dim, e->dim, (size_t)e->rank * sizeof *e->dim) != 0)
        return attn_error_set(error, ATTN_INVALID, "f", "f and e differ in shape");
    p->projection = ATTN_GIVEN;
    p->e = e->data;
    p->f = f->data;
    p->projection_heads = e->rank == 3 ? e->dim[0] : 1;
    p->projection_length = e->dim[e->rank - 1];
    p->k = e->dim[e->rank - 2];
    if (srv_options_int(options, SRV_FIELD_K, p->k) != p->k)
        return attn_error_set(error, ATTN_INVALID, "params.k",
                              "params.k is %lld but e has %lld rows",
                              (long long)srv_options_int(options, SRV_FIELD_K, 0), (long long)p->k);
    return ATTN_OK;
}

static attn_status read_directions(attn_mix_params *p, const attn_shape *shape,
                                   const srv_inputs *in, const srv_options *options,
                                   attn_error *error)
{
    const srv_tensor *omega = in->omega;
    char found[SRV_SHAPE_MAX];
    if (!omega)
        return ATTN_OK;
    if (omega->rank != 2 || omega->dim[1] != shape->d) {
        srv_tensor_shape(found, omega->dim, omega->rank);
        return attn_error_set(error, ATTN_INVALID, "omega",
                              "omega is %s, expected [features,%lld]: a direction has the columns "
                              "of q",
                              found, (long long)shape->d);
    }
    p->omega = omega->data;
    p->features = omega->dim[0];
    if (srv_options_int(options, SRV_FIELD_FEATURES, p->features) != p->features)
        return attn_error_set(error, ATTN_INVALID, "params.features",
                              "params.features is %lld but omega has %lld rows",
                              (long long)srv_options_int(options, SRV_FIELD_FEATURES, 0),
                              (long long)p->features);
    return ATTN_OK;
}

attn_status srv_params_override(attn_mix_params *p, const srv_options *options, attn_error *error)
{
    p->scale = (float)srv_options_real(options, SRV_FIELD_SCALE, p->scale);
    p->window = srv_options_int(options, SRV_FIELD_WINDOW, p->window);
    p->stride = srv_options_int(options, SRV_FIELD_STRIDE, p->stride);
    p->summary = srv_options_int(options, SRV_FIELD_SUMMARY, p->summary);
    p->k = srv_options_int(options, SRV_FIELD_K, p->k);
    p->features = srv_options_int(options, SRV_FIELD_FEATURES, p->features);
    p->orthogonal = srv_options_bool(options, SRV_FIELD_ORTHOGONAL, p->orthogonal);
    p->seed = (uint64_t)srv_options_int(options, SRV_FIELD_SEED, (int64_t)p->seed);
    return read_words(p, options, error);
}

attn_status srv_params_read(attn_mix_params *p, const attn_shape *shape, const srv_inputs *inputs,
                            const srv_options *options, attn_error *error)
{
    attn_mix_params_init(p, shape->d);
    p->mask.causal = srv_options_bool(options, SRV_FIELD_CAUSAL, false);
    attn_status status = srv_params_override(p, options, error);
    if (status == ATTN_OK)
        status = read_projection(p, shape, inputs, options, error);
    if (status == ATTN_OK)
        status = read_directions(p, shape, inputs, options, error);
    return status;
}
