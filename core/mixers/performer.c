/* Performer (Choromanski et al. 2021, FAVOR+): softmax attention's kernel exp(q.k) is the mean over
 * random directions w of phi_w(q) phi_w(k), phi_w(x) = exp(w.x' - |x'|^2 / 2), x' = x sqrt(scale).
 * So
 *
 *   out = sum_w phi_w(q) S_w / sum_w phi_w(q) z_w,   S_w = sum_k phi_w(k) v,   z_w = sum_k phi_w(k)
 *
 * and cost is O(n features (d + dv)). Everything is kept as exponents of 2 relative to a maximum a
 * feature (attn_feature_sums), so nothing over- or underflows and no epsilon distorts the answer;
 * the factors that a query's |q'|^2 and 1 / features would bring cancel.
 *
 * Phases: draw the directions, unless given; sum the keys of each chunk; combine the chunks, into
 * one or, under a causal mask, into prefixes; answer the queries. A causal query continues from the
 * sums before its chunk and takes in the chunk's own keys one by one, so that nothing of the
 * future, not even a maximum, touches it. */
#include "attn/blas.h"
#include "mixers/directions.h"
#include "mixers/fused.h"
#include "mixers/mixers.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK = 128,        /* rows whose features are computed at a time */
    CAUSAL_CHUNK = 512, /* keys between two saved prefixes */
    FULL_CHUNK = 2048,  /* keys a tile sums when there is no causal order */
    MOST_CHUNKS = 32,   /* of those, however long the sequence */
    /* A tile has to end soon whatever the sizes: making directions orthogonal costs d^3, drawing
     * them d^2, and a block of keys features x columns. */
    MOST_ORTHOGONAL = 256,
    MOST_DRAWN = 1024,
    MOST_SUMS = 1 << 22,
};

#define LOG2_E 1.44269504088896341

static size_t pad(int64_t count)
{
    return ((size_t)count + ATTN_LANES - 1) / ATTN_LANES * ATTN_LANES;
}

static size_t features_of(const attn_plan *plan)
{
    return pad(plan->params.features);
}

static size_t columns_of(const attn_plan *plan)
{
    return pad(plan->shape.dv);
}

/* Floats of one attn_feature_sums. */
static size_t sums_floats(const attn_plan *plan)
{
    return features_of(plan) * (columns_of(plan) + 2);
}

static bool draws(const attn_plan *plan)
{
    return plan->params.omega == NULL;
}

static size_t omega_floats(const attn_plan *plan)
{
    return draws(plan) ? pad(plan->params.features * plan->shape.d) : 0;
}

static int64_t chunk_length(const attn_plan *plan)
{
    if (plan->params.mask.causal)
        return CAUSAL_CHUNK;
    int64_t length = (plan->shape.m + MOST_CHUNKS - 1) / MOST_CHUNKS;
    return length > FULL_CHUNK ? length : FULL_CHUNK;
}

static int64_t chunk_count(const attn_plan *plan)
{
    return (plan->shape.m + chunk_length(plan) - 1) / chunk_length(plan);
}

/* Slots a head has: one a chunk, and one for the empty prefix. */
static int64_t slot_count(const attn_plan *plan)
{
    return chunk_count(plan) + 1;
}

static attn_feature_sums sums_in(const attn_plan *plan, float *memory)
{
    size_t features = features_of(plan);
    return (attn_feature_sums){.features = (ptrdiff_t)features,
                               .columns = (ptrdiff_t)columns_of(plan),
                               .maximum = memory,
                               .mass = memory + features,
                               .values = memory + 2 * features};
}

static attn_feature_sums slot(const attn_plan *plan, const attn_mix_io *io, int64_t head,
                              int64_t index)
{
    size_t at = (size_t)(head * slot_count(plan) + index) * sums_floats(plan);
    return sums_in(plan, (float *)io->shared + omega_floats(plan) + at);
}

static void clear(attn_feature_sums *sums)
{
    for (int f = 0; f < sums->features; f++)
        sums->maximum[f] = -FLT_MAX;
    memset(sums->mass, 0, (size_t)sums->features * sizeof *sums->mass);
    memset(sums->values, 0, (size_t)sums->features * (size_t)sums->columns * sizeof *sums->values);
}

/* Add `from` to `to`. */
static void combine(attn_feature_sums *to, const attn_feature_sums *from)
{
    for (int f = 0; f < to->features; f++) {
        float maximum = fmaxf(to->maximum[f], from->maximum[f]);
        float mine = exp2f(to->maximum[f] - maximum), theirs = exp2f(from->maximum[f] - maximum);
        float *a = to->values + f * to->columns;
        const float *b = from->values + f * to->columns;
        for (int c = 0; c < to->columns; c++)
            a[c] = a[c] * mine + b[c] * theirs;
        to->mass[f] = to->mass[f] * mine + from->mass[f] * theirs;
        to->maximum[f] = maximum;
    }
}

static const float *omega_of(const attn_plan *plan, const attn_mix_io *io)
{
    return draws(plan) ? io->shared : plan->params.omega;
}

/* t (count, features) = omega x' in units of log2: the exponents of the features, but for |x'|^2,
 * which of queries cancels. Padding features are -infinity. */
static void project(const attn_plan *plan, const float *omega, const float *x, ptrdiff_t stride,
                    int count, bool keys, float *t)
{
    int64_t d = plan->shape.d, features = plan->params.features;
    size_t padded = features_of(plan);
    double scale = plan->params.scale, factor = sqrt(fabs(scale)) * LOG2_E;
    attn_blas_gemm(&(attn_gemm){
        .rows = count,
        .columns = features,
        .depth = d,
        .a = x,
        .a_stride = stride,
        .b = omega,
        .b_stride = d,
        .b_transposed = true,
        .c = t,
        .c_stride = (ptrdiff_t)padded,
        /* A negative scale turns the queries round. */
        .alpha = (float)(scale < 0 && !keys ? -factor : factor),
    });
    for (int r = 0; r < count; r++)
        for (size_t f = (size_t)features; f < padded; f++)
            t[(size_t)r * padded + f] = -INFINITY;
}

/* Eight sums at once: one alone would wait for each addition. */
static double sum_of_squares(const float *x, int64_t d)
{
    float sums[8] = {0};
    int64_t whole = d - d % 8;
    for (int64_t c = 0; c < whole; c += 8)
        for (int i = 0; i < 8; i++)
            sums[i] += x[c + i] * x[c + i];
    double total = 0;
    for (int i = 0; i < 8; i++)
        total += sums[i];
    for (int64_t c = whole; c < d; c++)
        total += (double)x[c] * x[c];
    return total;
}

/* Exponents of keys [from, from + count) of a head: t as above, and in shift what to take off each
 * key's: |x'|^2 / 2, or infinity for a hidden one. */
static void project_keys(const attn_plan *plan, const attn_mix_io *io, int64_t b, int64_t g,
                         int64_t from, int count, float *t, float *shift)
{
    const uint8_t *mask = plan->params.mask.key_mask;
    const float *x = attn_view_row(io->k, b, g, from);
    double factor = fabs((double)plan->params.scale) * LOG2_E / 2;
    project(plan, omega_of(plan, io), x, io->k.row, count, true, t);
    for (int r = 0; r < count; r++, x += io->k.row) {
        shift[r] = (float)(factor * sum_of_squares(x, plan->shape.d));
        /* Too large a norm is not a hidden key; a NaN reaches the answer. */
        shift[r] = isinf(shift[r]) ? NAN : shift[r];
        if (mask && !mask[b * plan->shape.m + from + r]) {
            shift[r] = INFINITY;
            /* Its products may have overflown. */
            memset(t + (size_t)r * features_of(plan), 0, features_of(plan) * sizeof *t);
        }
    }
}

/* Workspace of a tile: a working sums, and rows of features. */
typedef struct workspace {
    attn_feature_sums sums;
    float *keys, *queries; /* (BLOCK, features) */
    float *keep;           /* (features) */
    float *row;            /* (columns) */
    float *mass, *shift;   /* (BLOCK) */
} workspace;

static size_t workspace_bytes(const attn_plan *plan)
{
    size_t features = features_of(plan);
    return attn_arena_round(sums_floats(plan) * sizeof(float)) +
           2 * attn_arena_round(BLOCK * features * sizeof(float)) +
           attn_arena_round(features * sizeof(float)) +
           attn_arena_round(columns_of(plan) * sizeof(float)) +
           2 * attn_arena_round(BLOCK * sizeof(float));
}

static bool open_workspace(const attn_plan *plan, attn_arena *scratch, workspace *w)
{
    size_t features = features_of(plan);
    float *sums = attn_arena_take(scratch, sums_floats(plan) * sizeof(float));
    w->keys = attn_arena_take(scratch, BLOCK * features * sizeof(float));
    w->queries = attn_arena_take(scratch, BLOCK * features * sizeof(float));
    w->keep = attn_arena_take(scratch, features * sizeof(float));
    w->row = attn_arena_take(scratch, columns_of(plan) * sizeof(float));
    w->mass = attn_arena_take(scratch, BLOCK * sizeof(float));
    w->shift = attn_arena_take(scratch, BLOCK * sizeof(float));
    if (!sums || !w->keys || !w->queries || !w->keep || !w->row || !w->mass || !w->shift)
        return false;
    w->sums = sums_in(plan, sums);
    memset(w->row, 0, columns_of(plan) * sizeof(float));
    return true;
}

/* Of the double precision rows that a block of directions is made in. */
static size_t basis_bytes(const attn_plan *plan)
{
    int64_t d = plan->shape.d, rows = plan->params.features < d ? plan->params.features : d;
    return draws(plan) ? attn_arena_round((size_t)(rows * d) * sizeof(double)) : 0;
}

static void run_draw(const attn_plan *plan, const attn_mix_io *io, int64_t tile, double *basis)
{
    attn_directions_draw(&plan->params, plan->shape.d, tile * plan->shape.d, basis, io->shared);
}

/* Sum a chunk's keys into its slot. */
static void run_keys(const attn_plan *plan, const attn_mix_io *io, int64_t tile, workspace *w)
{
    const attn_shape *s = &plan->shape;
    int64_t chunks = chunk_count(plan), head = tile / chunks, chunk = tile % chunks;
    int64_t b = head / s->kv_heads, g = head % s->kv_heads, valid = attn_valid_keys(plan, b);
    int64_t from = chunk * chunk_length(plan), end = from + chunk_length(plan);
    attn_feature_sums sums = slot(plan, io, head, chunk + 1);
    clear(&sums);
    end = end < valid ? end : valid;
    for (; from < end; from += BLOCK) {
        int count = (int)(end - from < BLOCK ? end - from : BLOCK);
        project_keys(plan, io, b, g, from, count, w->keys, w->shift);
        plan->kernels->features->absorb(&sums, w->keys, w->shift, count, w->keep);
        plan->kernels->features->decay(&sums, w->keep);
        attn_blas_gemm(&(attn_gemm){
            .rows = sums.features,
            .columns = s->dv,
            .depth = count,
            .a = w->keys,
            .a_stride = sums.features,
            .a_transposed = true,
            .b = attn_view_row(io->v, b, g, from),
            .b_stride = io->v.row,
            .c = sums.values,
            .c_stride = sums.columns,
            .alpha = 1,
            .beta = 1,
        });
    }
}

/* Slot c becomes the sums of all chunks before c; the last slot, of all. */
static void run_combine(const attn_plan *plan, const attn_mix_io *io, int64_t head)
{
    attn_feature_sums before = slot(plan, io, head, 0);
    clear(&before);
    for (int64_t c = 1; c < slot_count(plan); c++) {
        attn_feature_sums sums = slot(plan, io, head, c);
        combine(&sums, &before);
        before = sums;
    }
}

static void finish_row(const float *mixed, float mass, int64_t columns, float *out)
{
    for (int64_t c = 0; c < columns; c++)
        out[c] = mass == 0 ? 0 : mixed[c] / mass;
}

static void answer_block(const attn_plan *plan, const attn_mix_io *io, const attn_run *at,
                         const attn_feature_sums *sums, workspace *w)
{
    const attn_shape *s = &plan->shape;
    float *out = attn_view_row(io->out, at->b, at->h, at->first);
    project(plan, omega_of(plan, io), attn_view_row(io->q, at->b, at->h, at->first), io->q.row,
            at->rows, false, w->queries);
    plan->kernels->features->weigh(sums, w->queries, at->rows, w->mass);
    attn_blas_gemm(&(attn_gemm){
        .rows = at->rows,
        .columns = s->dv,
        .depth = sums->features,
        .a = w->queries,
        .a_stride = sums->features,
        .b = sums->values,
        .b_stride = sums->columns,
        .c = out,
        .c_stride = io->out.row,
        .alpha = 1,
    });
    for (int r = 0; r < at->rows; r++, out += io->out.row)
        finish_row(out, w->mass[r], s->dv, out);
}

static void run_queries(const attn_plan *plan, const attn_mix_io *io, int64_t tile, workspace *w)
{
    const attn_shape *s = &plan->shape;
    attn_run at = attn_fused_place(plan, tile);
    int64_t head = at.b * s->kv_heads + at.h / (s->heads / s->kv_heads);
    const attn_feature_sums sums = slot(plan, io, head, chunk_count(plan));
    at.rows = attn_fused_clear_padding(plan, io, &at);
    if (at.rows > 0)
        answer_block(plan, io, &at, &sums, w);
}

/* Take in one key, number r of those prepared, unless it is hidden. */
static void take_key(const attn_plan *plan, const attn_mix_io *io, const attn_run *at, int64_t key,
                     int64_t r, workspace *w)
{
    const attn_shape *s = &plan->shape;
    int64_t g = at->h / (s->heads / s->kv_heads);
    float *phi = w->keys + (size_t)r * features_of(plan);
    if (w->shift[r] == INFINITY)
        return;
    plan->kernels->features->absorb(&w->sums, phi, &w->shift[r], 1, w->keep);
    memcpy(w->row, attn_view_row(io->v, at->b, g, key), (size_t)s->dv * sizeof(float));
    plan->kernels->features->add_key(&w->sums, w->keep, phi, w->row);
}

/* Features of keys [from, end) of the run's head, at most BLOCK of them, into w->keys. */
static void prepare_keys(const attn_plan *plan, const attn_mix_io *io, const attn_run *at,
                         int64_t from, int64_t end, workspace *w)
{
    int64_t g = at->h / (plan->shape.heads / plan->shape.kv_heads);
    if (end > from)
        project_keys(plan, io, at->b, g, from, (int)(end - from), w->keys, w->shift);
}

/* Take in keys [from, end), in order. */
static void take_keys(const attn_plan *plan, const attn_mix_io *io, const attn_run *at,
                      int64_t from, int64_t end, workspace *w)
{
    for (; from < end; from += BLOCK) {
        int64_t stop = end - from < BLOCK ? end : from + BLOCK;
        prepare_keys(plan, io, at, from, stop, w);
        for (int64_t key = from; key < stop; key++)
            take_key(plan, io, at, key, key - from, w);
    }
}

/* Answer a block of rows, each after its own last key; all keys before the first row's own have
 * been taken in. */
static void answer_in_order(const attn_plan *plan, const attn_mix_io *io, const attn_run *at,
                            workspace *w)
{
    const attn_feature_kernels *kernels = plan->kernels->features;
    const attn_shape *s = &plan->shape;
    size_t features = features_of(plan);
    int64_t valid = attn_valid_keys(plan, at->b), p = at->first + s->m - s->n;
    int64_t from = p > 0 ? p : 0, end = p + at->rows < valid ? p + at->rows : valid;
    prepare_keys(plan, io, at, from, end, w);
    project(plan, omega_of(plan, io), attn_view_row(io->q, at->b, at->h, at->first), io->q.row,
            at->rows, false, w->queries);
    for (int r = 0; r < at->rows; r++) {
        float *weights = w->queries + (size_t)r * features;
        if (p + r >= from && p + r < end)
            take_key(plan, io, at, p + r, p + r - from, w);
        kernels->weigh(&w->sums, weights, 1, w->mass);
        /* The row buffer's padding columns come back as the 0 they hold in the sums. */
        kernels->read(&w->sums, weights, w->row);
        finish_row(w->row, w->mass[0], s->dv, attn_view_row(io->out, at->b, at->h, at->first + r));
    }
}

/* The rows whose positions lie in one chunk of keys. */
static void run_causal(const attn_plan *plan, const attn_mix_io *io, int64_t tile, workspace *w)
{
    const attn_shape *s = &plan->shape;
    int64_t offset = s->m - s->n, blocks = chunk_count(plan), head = tile / blocks;
    int64_t chunk = tile % blocks, from = chunk * CAUSAL_CHUNK - offset;
    attn_run at = {.b = head / s->heads, .h = head % s->heads, .step = 1};
    if (chunk == 0 && from > 0) {
        /* Rows before the first key: there may be many, and they see nothing. */
        at.rows = (int)from;
        attn_fused_clear(plan, io, &at, 0);
    }
    at.first = from > 0 ? from : 0;
    int64_t end = from + CAUSAL_CHUNK < s->n ? from + CAUSAL_CHUNK : s->n;
    if (end <= at.first)
        return;
    at.rows = (int)(end - at.first);
    int64_t last = at.first + attn_fused_clear_padding(plan, io, &at);
    int64_t kv_head = at.b * s->kv_heads + at.h / (s->heads / s->kv_heads);
    const attn_feature_sums before = slot(plan, io, kv_head, chunk);
    memcpy(w->sums.maximum, before.maximum, sums_floats(plan) * sizeof(float));
    int64_t valid = attn_valid_keys(plan, at.b), p = at.first + offset;
    take_keys(plan, io, &at, chunk * CAUSAL_CHUNK, p < valid ? p : valid, w);
    for (; at.first < last; at.first += BLOCK) {
        at.rows = (int)(last - at.first < BLOCK ? last - at.first : BLOCK);
        answer_in_order(plan, io, &at, w);
    }
}

static attn_status check(const attn_mix_params *p, const attn_shape *s, attn_error *error)
{
    double floats = (double)p->features * ((double)s->dv + (double)s->d + 64) *
                    ((double)s->m / CAUSAL_CHUNK + MOST_CHUNKS) * (double)s->batch *
                    (double)s->kv_heads;
    int64_t most_columns = p->orthogonal ? MOST_ORTHOGONAL : MOST_DRAWN;
    if (!p->omega && s->d > most_columns)
        return attn_error_set(error, ATTN_UNSUPPORTED, "omega",
                              "performer draws %sdirections for up to %lld columns, q has %lld; "
                              "give omega",
                              p->orthogonal ? "orthogonal " : "", (long long)most_columns,
                              (long long)s->d);
    if (p->features >= 1 && (double)p->features * (double)(s->d + s->dv) > MOST_SUMS)
        return attn_error_set(error, ATTN_UNSUPPORTED, "params.features",
                              "params.features is %lld: performer keeps features x columns sums, "
                              "here up to %d",
                              (long long)p->features, MOST_SUMS);
    if (p->features >= 1 && p->features < INT32_MAX / BLOCK && floats < 0x1p58)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "params.features",
                          "params.features is %lld, expected at least 1 and sums that can be "
                          "counted",
                          (long long)p->features);
}

static attn_status add_phases(attn_plan *plan, const attn_machine *machine, attn_error *error)
{
    const attn_shape *s = &plan->shape;
    double features = (double)features_of(plan), kv = (double)s->batch * (double)s->kv_heads;
    double queries = (double)s->batch * (double)s->heads * (double)s->n;
    int64_t tiles = plan->params.mask.causal ? chunk_count(plan)
                                             : (s->n + plan->tile_rows - 1) / plan->tile_rows;
    double draw_pairs = (double)plan->params.features * (double)s->d;
    attn_status status = ATTN_OK;
    if (draws(plan))
        status =
            attn_fused_phase(plan, machine, "draw", 1, (plan->params.features + s->d - 1) / s->d,
                             16 * draw_pairs, error);
    if (status == ATTN_OK)
        status = attn_fused_phase(plan, machine, "keys", s->batch * s->kv_heads, chunk_count(plan),
                                  kv * (double)s->m * features, error);
    if (status == ATTN_OK)
        status = attn_fused_phase(plan, machine, "combine", s->batch * s->kv_heads, 1,
                                  kv * (double)chunk_count(plan) * features, error);
    if (status == ATTN_OK)
        status = attn_fused_phase(plan, machine, "queries", s->batch * s->heads, tiles,
                                  queries * features * (plan->params.mask.causal ? 4 : 1), error);
    return status;
}

static attn_status plan(const attn_machine *machine, const attn_mix_params *params,
                        const attn_shape *shape, attn_plan *plan, attn_error *error)
{
    attn_status status = check(params, shape, error);
    if (status == ATTN_OK)
        status = attn_fused_open(&attn_mixer_performer, machine, params, shape, plan, error);
    if (status != ATTN_OK)
        return status;
    plan->tile_rows = shape->n < BLOCK ? (int)shape->n : BLOCK;
    size_t slots = (size_t)(shape->batch * shape->kv_heads * slot_count(plan));
    size_t basis = basis_bytes(plan);
    size_t work = workspace_bytes(plan);
    plan->shared_bytes = (omega_floats(plan) + slots * sums_floats(plan)) * sizeof(float);
    plan->scratch_bytes = work > basis ? work : basis;
    return add_phases(plan, machine, error);
}

static attn_status run(const attn_plan *plan, const attn_mix_io *io, int phase, int64_t tile,
                       attn_arena *scratch)
{
    workspace w;
    if (!draws(plan))
        phase++;
    if (phase == 0) {
        double *basis = attn_arena_take(scratch, basis_bytes(plan));
        if (!basis)
            return ATTN_NO_MEMORY;
        run_draw(plan, io, tile, basis);
        return ATTN_OK;
    }
    if (phase == 2) {
        run_combine(plan, io, tile);
        return ATTN_OK;
    }
    if (!open_workspace(plan, scratch, &w))
        return ATTN_NO_MEMORY;
    if (phase == 1)
        run_keys(plan, io, tile, &w);
    else
        (plan->params.mask.causal ? run_causal : run_queries)(plan, io, tile, &w);
    return ATTN_OK;
}

const attn_mixer attn_mixer_performer = {
    .name = "performer",
    .summary = "FAVOR+: the softmax kernel estimated with params.features random directions",
    .traits = ATTN_CAUSAL,
    .plan = plan,
    .run = run,
};
