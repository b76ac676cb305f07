#include "tests/support/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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

/* `count` elements of `size` bytes in memory of their own, or NULL. */
static void *read_array(FILE *file, int64_t count, size_t size)
{
    void *data = malloc((size_t)count * size);
    if (data && fread(data, size, (size_t)count, file) == (size_t)count)
        return data;
    free(data);
    return NULL;
}

static bool read_vector(FILE *file, test_vector *x)
{
    int has_lengths, has_mask;
    if (!read_head(file, x, &has_lengths, &has_mask))
        return false;
    const attn_shape *s = &x->shape;
    attend_arrays *a = &x->arrays;
    int64_t outputs = s->batch * s->heads * s->n * s->dv;
    a->out_count = (size_t)outputs;
    a->out = malloc((size_t)outputs * sizeof *a->out);
    a->q = read_array(file, s->batch * s->heads * s->n * s->d, sizeof *a->q);
    a->k = read_array(file, s->batch * s->kv_heads * s->m * s->d, sizeof *a->k);
    a->v = read_array(file, s->batch * s->kv_heads * s->m * s->dv, sizeof *a->v);
    if (has_lengths)
        x->mask.lengths = x->lengths = read_array(file, s->batch, sizeof *x->lengths);
    if (has_mask)
        x->mask.key_mask = x->key_mask = read_array(file, s->batch * s->m, 1);
    x->expected = read_array(file, outputs, sizeof *x->expected);
    return a->out && a->q && a->k && a->v && !has_lengths == !x->lengths &&
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
    free(vector->lengths);
    free(vector->key_mask);
    free(vector->expected);
}
