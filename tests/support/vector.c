#include "tests/support/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_head(FILE *file, test_vector *x, int *has_lengths, int *has_mask)
{
    attn_shape *s = &x->shape;
    char line[256];
    int causal, end = 0;
    if (!fgets(line, sizeof line, file) ||
        sscanf(line,
               "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %d %d %d %f\n%n",
               &s->batch, &s->heads, &s->kv_heads, &s->n, &s->m, &s->d, &s->dv, &causal,
               has_lengths, has_mask, &x->scale, &end) != 11)
        return false;
    x->mask.causal = causal != 0;
    return line[end] == '\0';
}

static bool read_tolerance(const char *text, test_vector *x)
{
    char *end;
    x->tolerance = strtod(text, &end);
    return *end == '\0';
}

/* One `name=value` of the second line. */
static bool read_param(const char *name, const char *text, test_vector *x, int64_t *has_f)
{
    static const char *const patterns[] = {"strided", "fixed", "local"};
    attn_mix_params *p = &x->params;
    const struct {
        const char *name;
        int64_t *value;
    } integers[] = {{"window", &p->window},
                    {"stride", &p->stride},
                    {"summary", &p->summary},
                    {"k", &p->k},
                    {"features", &p->features},
                    {"projection_heads", &p->projection_heads},
                    {"projection_length", &p->projection_length},
                    {"f", has_f}};
    if (strcmp(name, "tolerance") == 0)
        return read_tolerance(text, x);
    for (int i = 0; i < 3 && strcmp(name, "pattern") == 0; i++)
        if (strcmp(text, patterns[i]) == 0) {
            p->pattern = (attn_pattern)i;
            return true;
        }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (strcmp(name, integers[i].name) == 0) {
            char *end;
            *integers[i].value = strtoll(text, &end, 10);
            return *end == '\0';
        }
    return false;
}

/* The second line: the mixer, then its parameters. */
static bool read_params(FILE *file, test_vector *x, int64_t *has_f)
{
    char line[256], *rest;
    attn_mix_params_init(&x->params, x->shape.d);
    if (!fgets(line, sizeof line, file) || !strchr(line, '\n'))
        return false;
    char *word = strtok_r(line, " \n", &rest);
    if (!word || strlen(word) >= sizeof x->mixer)
        return false;
    strcpy(x->mixer, word);
    while ((word = strtok_r(NULL, " \n", &rest))) {
        char *value = strchr(word, '=');
        if (!value)
            return false;
        *value++ = '\0';
        if (!read_param(word, value, x, has_f))
            return false;
    }
    return true;
}

/* `count` elements of `size` bytes in memory of their own, or NULL. */
static void *read_array(FILE *file, int64_t count, size_t size)
{
    void *data = malloc((size_t)count * size);
    if (data && fread(data, size, (size_t)count, file) == (size_t)count)
        return data;
    free(data);
    return NULL;
}

/* Projections and directions, where the parameters speak of any. */
static bool read_given(FILE *file, test_vector *x, bool has_f)
{
    attn_mix_params *p = &x->params;
    int64_t floats = p->projection_heads * p->k * p->projection_length;
    if (floats > 0) {
        p->projection = ATTN_GIVEN;
        p->e = p->f = x->e = read_array(file, floats, sizeof *x->e);
    }
    if (floats > 0 && has_f)
        p->f = x->f = read_array(file, floats, sizeof *x->f);
    if (strcmp(x->mixer, "performer") == 0)
        p->omega = x->omega = read_array(file, p->features * x->shape.d, sizeof *x->omega);
    return (floats == 0 || (p->e && p->f)) && (p->omega || strcmp(x->mixer, "performer") != 0);
}

static bool read_vector(FILE *file, test_vector *x)
{
    int has_lengths, has_mask;
    int64_t has_f = 0;
    if (!read_head(file, x, &has_lengths, &has_mask) || !read_params(file, x, &has_f))
        return false;
    const attn_shape *s = &x->shape;
    attend_arrays *a = &x->arrays;
    int64_t outputs = s->batch * s->heads * s->n * s->dv;
    a->out_count = (size_t)outputs;
    a->out = malloc((size_t)outputs * sizeof *a->out);
    a->q = read_array(file, s->batch * s->heads * s->n * s->d, sizeof *a->q);
    a->k = read_array(file, s->batch * s->kv_heads * s->m * s->d, sizeof *a->k);
    a->v = read_array(file, s->batch * s->kv_heads * s->m * s->dv, sizeof *a->v);
    bool given = read_given(file, x, has_f != 0);
    if (has_lengths)
        x->mask.lengths = x->lengths = read_array(file, s->batch, sizeof *x->lengths);
    if (has_mask)
        x->mask.key_mask = x->key_mask = read_array(file, s->batch * s->m, 1);
    x->expected = read_array(file, outputs, sizeof *x->expected);
    return given && a->out && a->q && a->k && a->v && !has_lengths == !x->lengths &&
           !has_mask == !x->key_mask && x->expected && fgetc(file) == EOF;
}

bool test_vector_open(const char *path, test_vector *vector)
{
    *vector = (test_vector){0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool whole = read_vector(file, vector);
    fclose(file);
    return whole;
}

void test_vector_close(test_vector *vector)
{
    attend_arrays_close(&vector->arrays);
    free(vector->e);
    free(vector->f);
    free(vector->omega);
    free(vector->lengths);
    free(vector->key_mask);
    free(vector->expected);
}
