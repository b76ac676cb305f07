#include "tests/support/scan.h"

#include "attn/arena.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands around the answers; no kernel computes it. */
static const float guard = -1.2345e33F;

float *scan_own(scan_case *c, size_t count)
{
    void *data = NULL;
    if (posix_memalign(&data, ATTN_ALIGN, (count ? count : 1) * sizeof(float)) != 0)
        abort();
    c->owned[c->owned_count++] = data;
    return data;
}

static float *vector(scan_case *c, test_random *random, size_t count, float gain)
{
    float *data = scan_own(c, count);
    random_fill(random, data, count, gain);
    return data;
}

bool scan_sees(const scan_case *c, ptrdiff_t t)
{
    return !c->mask || c->mask[t] != 0;
}

/* (count, columns) with NaN between the rows. */
static float *matrix(scan_case *c, test_random *random, int columns, ptrdiff_t stride, float center)
{
    const int rows = c->spec.count;
    const size_t count = (size_t)(rows - 1) * (size_t)stride + (size_t)columns;
    float *data = scan_own(c, count);
    for (size_t i = 0; i < count; i++)
        data[i] = NAN;
    for (int t = 0; t < rows; t++)
        for (int i = 0; i < columns; i++)
            data[t * stride + i] = center + random_normal(random);
    return data;
}

/* (count, columns) with NaN between the rows; `hidden` takes the place of what the mask hides. */
static float *masked_matrix(scan_case *c, test_random *random, int columns, ptrdiff_t stride,
                            float hidden)
{
    float *data = matrix(c, random, columns, stride, 0);
    for (int t = 0; t < c->spec.count; t++)
        for (int i = 0; i < columns && !scan_sees(c, t); i++)
            data[t * stride + i] = hidden;
    return data;
}

/* An answer of guards, with a row of them above and one below. */
static float *answer(scan_case *c, ptrdiff_t stride)
{
    const ptrdiff_t count = (c->spec.count + 2) * stride;
    float *data = scan_own(c, (size_t)count);
    for (ptrdiff_t i = 0; i < count; i++)
        data[i] = guard;
    return data + stride;
}

static bool sees(const scan_spec *s, int t)
{
    switch (s->mask) {
    case SCAN_LEFT:
        return t >= s->count / 3 + 1;
    case SCAN_RIGHT:
        return t < s->count - s->count / 3 - 1;
    case SCAN_HOLES:
        return t % 3 != 0 && t != s->count - 1;
    case SCAN_HIDDEN:
        return false;
    default:
        return true;
    }
}

size_t scan_history_floats(const scan_case *c)
{
    return (size_t)(c->conv.width - 1) * (size_t)c->conv.channels;
}

size_t scan_state_floats(const scan_case *c)
{
    return attn_scan_floats(c->scan.channels, c->scan.states);
}

static void open_conv(scan_case *c, test_random *random)
{
    const scan_spec *s = &c->spec;
    attn_conv *v = &c->conv;
    *v = (attn_conv){.count = s->count,
                     .channels = s->channels,
                     .width = s->width,
                     .x_stride = s->channels + random_int(random, 0, 5),
                     .out_stride = s->channels + random_int(random, 0, 5),
                     .mask = c->mask};
    const size_t weights = (size_t)(s->channels * s->width);
    float *taps = scan_own(c, weights);
    c->weight = vector(c, random, weights, 1);
    attn_conv_prepare(c->weight, s->channels, s->width, taps);
    v->taps = taps;
    v->x = masked_matrix(c, random, s->channels, v->x_stride, NAN);
    v->bias = s->biased ? vector(c, random, (size_t)s->channels, 1) : NULL;
    v->history = vector(c, random, scan_history_floats(c), 1);
    v->out = answer(c, v->out_stride);
}

static void open_scan(scan_case *c, test_random *random)
{
    const scan_spec *s = &c->spec;
    attn_scan *n = &c->scan;
    *n = (attn_scan){.count = s->count,
                     .channels = s->channels,
                     .states = s->states,
                     .euler = s->euler,
                     .x_stride = s->channels + random_int(random, 0, 5),
                     .dt_stride = s->channels + random_int(random, 0, 5),
                     .b_stride = s->states + random_int(random, 0, 5),
                     .c_stride = s->states + random_int(random, 0, 5),
                     .z_stride = s->channels + random_int(random, 0, 5),
                     .y_stride = s->channels + random_int(random, 0, 5)};
    float *a = scan_own(c, scan_state_floats(c));
    c->a_log = vector(c, random, (size_t)(s->channels * s->states), 1);
    for (int i = 0; i < s->channels * s->states; i++)
        c->a_log[i] += s->decay;
    attn_scan_prepare(c->a_log, s->channels, s->states, a);
    n->a = a;
    n->x = masked_matrix(c, random, s->channels, n->x_stride, 0);
    n->dt = matrix(c, random, s->channels, n->dt_stride, s->step);
    n->b = masked_matrix(c, random, s->states, n->b_stride, 0);
    n->c = masked_matrix(c, random, s->states, n->c_stride, 0);
    n->z = s->biased ? matrix(c, random, s->channels, n->z_stride, 0) : NULL;
    n->dt_bias = s->biased ? vector(c, random, (size_t)s->channels, 1) : NULL;
    n->skip = s->biased ? vector(c, random, (size_t)s->channels, 1) : NULL;
    n->h = vector(c, random, scan_state_floats(c), 1);
    n->y = answer(c, n->y_stride);
}

void scan_open(scan_case *c, const scan_spec *spec)
{
    test_random random = {spec->seed};
    *c = (scan_case){.spec = *spec};
    if (spec->mask != SCAN_UNMASKED) {
        c->owned[c->owned_count++] = c->mask = malloc((size_t)spec->count);
        for (int t = 0; t < spec->count; t++)
            c->mask[t] = sees(spec, t) ? (uint8_t)random_int(&random, 1, 255) : 0;
    }
    open_conv(c, &random);
    open_scan(c, &random);
}

void scan_close(scan_case *c)
{
    while (c->owned_count > 0)
        free(c->owned[--c->owned_count]);
}

static ptrdiff_t least(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

/* The part of the work that begins at position t. */
static void run_chunk(const scan_case *c, const attn_scan_kernels *kernels, ptrdiff_t t,
                      ptrdiff_t count, ptrdiff_t range)
{
    attn_conv v = c->conv;
    attn_scan n = c->scan;
    v.count = n.count = count;
    v.x += t * v.x_stride;
    v.out += t * v.out_stride;
    n.x += t * n.x_stride;
    n.dt += t * n.dt_stride;
    n.b += t * n.b_stride;
    n.c += t * n.c_stride;
    n.z = n.z ? n.z + t * n.z_stride : NULL;
    n.y += t * n.y_stride;
    v.mask = c->mask ? c->mask + t : NULL;
    for (ptrdiff_t first = 0; first < v.channels; first += range) {
        kernels->convolve(&v, first, least(first + range, v.channels));
        kernels->scan(&n, first, least(first + range, v.channels));
    }
}

void scan_run(scan_case *c, const attn_scan_kernels *kernels, ptrdiff_t chunk, ptrdiff_t range)
{
    for (ptrdiff_t t = 0; t < c->conv.count; t += chunk)
        run_chunk(c, kernels, t, least(chunk, c->conv.count - t), range);
}

static bool guards_stand(const float *out, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t stride)
{
    for (ptrdiff_t t = -1; t <= rows; t++)
        for (ptrdiff_t i = t < 0 || t == rows ? 0 : columns; i < stride; i++)
            if (memcmp(&out[t * stride + i], &guard, sizeof guard) != 0)
                return false;
    return true;
}

bool scan_strayed(const scan_case *c)
{
    const attn_conv *v = &c->conv;
    const attn_scan *n = &c->scan;
    return !guards_stand(v->out, v->count, v->channels, v->out_stride) ||
           !guards_stand(n->y, n->count, n->channels, n->y_stride);
}

const char *scan_describe(const scan_case *c, attn_isa isa)
{
    static const char *const masks[] = {"unmasked", "visible", "left", "right", "holes", "hidden"};
    static char text[200];
    const scan_spec *s = &c->spec;
    snprintf(text, sizeof text,
             "%s count %d channels %d states %d width %d%s%s step %g decay %g %s seed %llu",
             attn_isa_name(isa), s->count, s->channels, s->states, s->width,
             s->euler ? " euler" : "", s->biased ? " biased" : "", s->step, s->decay,
             masks[s->mask], (unsigned long long)s->seed);
    return text;
}
