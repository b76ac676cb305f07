/* Which parameters are worth measuring, and in what order to name them. */
#include "attn/analysis.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_VALUES = 64, /* doublings of 64 bits at most, or a few of them and the windows */
    LEAST_STRIDE = 2, /* stride 1 lets every key be seen */
    LEAST_FEATURES = 16,
    MOST_FEATURES = 1024, /* unless more were asked for */
};

typedef struct values {
    int64_t all[MOST_VALUES]; /* rising, each once */
    int count;
} values;

static void add(values *v, int64_t value, int64_t least, int64_t most)
{
    int at = v->count;
    while (at > 0 && v->all[at - 1] > value)
        at--;
    bool there = at > 0 && v->all[at - 1] == value;
    if (value < least || value > most || there || v->count == MOST_VALUES)
        return;
    for (int i = v->count++; i > at; i--)
        v->all[i] = v->all[i - 1];
    v->all[at] = value;
}

/* least, 2 least, 4 least, ... up to most, and `own`. */
static values doubling(int64_t least, int64_t most, int64_t own)
{
    values v = {.count = 0};
    for (int64_t value = least; value <= most; value *= 2)
        add(&v, value, least, most);
    add(&v, own, least, most);
    return v;
}

typedef struct sweep {
    const attn_mix_params *params;
    attn_trial *trials;
    int count;
} sweep;

static attn_trial *add_trial(sweep *s, const char *mixer, attn_varied varied)
{
    attn_trial *trial = &s->trials[s->count++];
    *trial = (attn_trial){.mixer = attn_mixer_find(mixer),
                          .varied = varied,
                          .params = *s->params,
                          .relative_l2 = NAN};
    return trial;
}

static void add_windows(sweep *s, int64_t most, const int64_t *windows, int window_count)
{
    values v = doubling(1, most, s->params->window);
    for (int i = 0; i < window_count; i++)
        add(&v, windows[i], 1, most);
    for (int i = 0; i < v.count; i++)
        add_trial(s, "window", ATTN_VARIED_WINDOW)->params.window = v.all[i];
}

static void add_strides(sweep *s, attn_pattern pattern, int64_t m)
{
    int64_t own = s->params->stride > 0 ? s->params->stride : (int64_t)ceil(sqrt((double)m));
    values v = doubling(LEAST_STRIDE, m - 1, own);
    for (int i = 0; i < v.count; i++) {
        attn_trial *trial = add_trial(s, "sparse", ATTN_VARIED_STRIDE);
        trial->params.pattern = pattern;
        trial->params.stride = v.all[i];
    }
}

/* Directions that were given can only be left out, the last first. */
static void add_features(sweep *s)
{
    int64_t own = s->params->features, most = own;
    if (!s->params->omega && own < MOST_FEATURES)
        most = MOST_FEATURES;
    values v = doubling(own < LEAST_FEATURES ? own : LEAST_FEATURES, most, own);
    for (int i = 0; i < v.count; i++)
        add_trial(s, "performer", ATTN_VARIED_FEATURES)->params.features = v.all[i];
}

int attn_sweep(const attn_mix_params *params, const attn_shape *shape, const int64_t *windows,
               int window_count, attn_trial trials[ATTN_MAX_TRIALS])
{
    sweep s = {.params = params, .trials = trials};
    add_trial(&s, "exact", ATTN_VARIED_NOTHING);
    add_windows(&s, shape->m - 1, windows, window_count);
    add_strides(&s, ATTN_STRIDED, shape->m);
    add_strides(&s, ATTN_FIXED, shape->m);
    values v = doubling(1, shape->m - 1, params->k);
    for (int i = 0; i < v.count; i++)
        add_trial(&s, "linformer", ATTN_VARIED_K)->params.k = v.all[i];
    add_features(&s);
    return s.count;
}

static double error_of(const attn_trial *trial)
{
    return isnan(trial->relative_l2) ? INFINITY : trial->relative_l2;
}

/* Cheaper first, then the more exact; 0 when equal in both. */
static int compare(const void *left, const void *right)
{
    const attn_trial *a = left, *b = right;
    if (a->predicted_ms != b->predicted_ms)
        return a->predicted_ms < b->predicted_ms ? -1 : 1;
    double a_error = error_of(a), b_error = error_of(b);
    return a_error < b_error ? -1 : a_error > b_error;
}

/* In rising order of cost a trial is beaten unless its error is the least so far. Each round of the
 * second loop moves the next that is not beaten to the end of those. */
void attn_sweep_order(attn_trial *trials, int count)
{
    double least = INFINITY;
    int front = 0;
    qsort(trials, (size_t)count, sizeof *trials, compare);
    for (int i = 0; i < count; i++) {
        if (error_of(&trials[i]) >= least)
            continue;
        attn_trial kept = trials[i];
        least = error_of(&kept);
        for (int at = i; at > front; at--)
            trials[at] = trials[at - 1];
        trials[front++] = kept;
    }
}
