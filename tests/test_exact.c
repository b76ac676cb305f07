/* Exact attention as a whole: against float64 vectors, and what must hold however it is tiled. */
#include "mixers/fused.h"
#include "tests/support/attend.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/vector.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Over all visible pairs of a vector: the largest |v|, and the largest scale * sum |q_c k_c|. */
typedef struct sizes {
    double v, logit;
} sizes;

static void widen(const test_vector *x, int64_t b, int64_t h, int64_t i, int64_t j, sizes *most)
{
    const attn_shape *s = &x->shape;
    int64_t kv_head = b * s->kv_heads + h / (s->heads / s->kv_heads);
    const float *q = x->arrays.q + ((b * s->heads + h) * s->n + i) * s->d;
    const float *k = x->arrays.k + (kv_head * s->m + j) * s->d;
    const float *v = x->arrays.v + (kv_head * s->m + j) * s->dv;
    double logit = 0;
    for (int64_t c = 0; c < s->d; c++)
        logit += fabs((double)q[c] * k[c]);
    most->logit = fmax(most->logit, x->scale * logit);
    for (int64_t c = 0; c < s->dv; c++)
        most->v = fmax(most->v, fabs((double)v[c]));
}

static sizes visible_sizes(const test_vector *x)
{
    const attn_shape *s = &x->shape;
    sizes most = {0};
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t i = 0; i < s->n; i++)
                for (int64_t j = 0; j < s->m; j++)
                    if (attend_sees(s, &x->mask, b, i, j))
                        widen(x, b, h, i, j, &most);
    return most;
}

/* 1e-6 of the largest |v| for logits of ordinary size, which is the promise. Sharp ones (x 30, or
 * as trained models have them) cannot keep it in float32: a logit is disturbed by about two
 * roundings, 2^-24 each, of scale * sum |q_c k_c|; the weights by as much relative to themselves,
 * and the answer by that for the weights and again for their sum. */
static double vector_tolerance(const char *name, const test_vector *x)
{
    bool sharp = strncmp(name, "huge_", 5) == 0 || strncmp(name, "trained_like", 12) == 0;
    sizes most = visible_sizes(x);
    return most.v * (1e-6 + (sharp ? 0x1p-22 * most.logit : 0));
}

static bool sees_nothing(const test_vector *x, int64_t b, int64_t i)
{
    for (int64_t j = 0; j < x->shape.m; j++)
        if (attend_sees(&x->shape, &x->mask, b, i, j))
            return false;
    return true;
}

/* Rows that see no key are +0 to the bit. */
static void check_empty_rows(const char *name, const test_vector *x, attn_isa isa)
{
    static const float zero = 0.0F;
    const attn_shape *s = &x->shape;
    for (int64_t row = 0; row < s->batch * s->heads * s->n; row++) {
        int64_t b = row / (s->heads * s->n), i = row % s->n;
        for (int64_t c = 0; c < s->dv && sees_nothing(x, b, i); c++)
            CHECK(memcmp(&x->arrays.out[row * s->dv + c], &zero, sizeof zero) == 0,
                  "%s on %s: row %lld of batch %lld sees no key but is %g", name,
                  attn_isa_name(isa), (long long)i, (long long)b, x->arrays.out[row * s->dv + c]);
    }
}

static void check_vector(const char *name, test_vector *x, attn_isa isa, double bound)
{
    attend_call call = attend_dense(&x->shape, &x->arrays, isa);
    call.scale = x->scale;
    call.mask = x->mask;
    attend_result result;
    attn_error error = {0};
    for (size_t i = 0; i < x->arrays.out_count; i++)
        x->arrays.out[i] = NAN;
    attn_status status = attend_run(&call, &result, &error);
    CHECK(status == ATTN_OK, "%s on %s: %s %s", name, attn_isa_name(isa), attn_status_name(status),
          error.message);
    double worst = 0;
    for (size_t i = 0; i < x->arrays.out_count; i++) {
        double off = fabs(x->arrays.out[i] - x->expected[i]);
        worst = !(off <= worst) ? off : worst;
    }
    CHECK(worst <= bound, "%s on %s: off by %.3g, allowed %.3g", name, attn_isa_name(isa), worst,
          bound);
    check_empty_rows(name, x, isa);
}

static bool is_vector(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".vec") == 0;
}

static void test_vectors(void)
{
    const char *folder = getenv("ATTN_VECTORS");
    DIR *listing = folder ? opendir(folder) : NULL;
    int count = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!is_vector(entry->d_name))
            continue;
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        test_vector x;
        bool whole = test_vector_open(path, &x);
        CHECK(whole, "%s is no vector", path);
        double bound = whole ? vector_tolerance(entry->d_name, &x) : 0;
        for (const attn_kernels *k = kernels_after(NULL); whole && k; k = kernels_after(k))
            check_vector(entry->d_name, &x, k->isa, bound);
        test_vector_close(&x);
        count++;
    }
    if (listing)
        closedir(listing);
    CHECK(count > 0, "no vectors; make them with tests/vectors/make_vectors.py DIR and set "
                     "ATTN_VECTORS=DIR");
}

/* A shape with a mask of every kind; which of them count is up to the caller. */
typedef struct masked_case {
    attn_shape shape;
    bool causal, use_lengths, use_key_mask;
} masked_case;

static const masked_case masked_cases[] = {
    {{2, 2, 1, 200, 200, 8, 8}, false, false, false},
    {{2, 2, 1, 200, 200, 8, 8}, true, false, false},
    {{3, 2, 2, 193, 193, 5, 7}, false, true, false},
    {{3, 2, 2, 193, 193, 5, 7}, true, true, false},
    {{2, 4, 2, 97, 385, 8, 3}, true, false, false},
    {{2, 4, 2, 97, 385, 8, 3}, true, true, false},
    {{2, 2, 2, 385, 97, 3, 8}, true, false, false},
    {{2, 2, 2, 385, 97, 3, 8}, true, true, true},
    {{2, 2, 1, 100, 1000, 8, 8}, false, false, true},
    {{2, 2, 1, 300, 300, 8, 8}, true, false, true},
    {{3, 2, 1, 96, 9000, 2, 2}, true, true, true},
    {{1, 1, 1, 1, 1, 1, 1}, true, true, true},
};

enum {
    MASKED_CASES = sizeof masked_cases / sizeof *masked_cases,
    MOST_BATCH = 3,
    MOST_KEYS = 9000,
};

typedef struct mask_arrays {
    int64_t lengths[MOST_BATCH];
    uint8_t key_mask[MOST_BATCH * MOST_KEYS];
} mask_arrays;

/* Lengths from nothing to everything; key masks with runs, holes and loose keys. */
static attn_mask make_mask(const masked_case *c, mask_arrays *arrays)
{
    const attn_shape *s = &c->shape;
    test_random random = {(uint64_t)(s->n * 10007 + s->m)};
    for (int64_t b = 0; b < s->batch; b++)
        arrays->lengths[b] = b == 0 ? s->m - s->m / 3 : b == 1 ? s->m : 0;
    int run = 0, value = 0;
    for (int64_t i = 0; i < s->batch * s->m; i++, run--) {
        if (run == 0) {
            value = !value;
            run = random_int(&random, 1, random_int(&random, 0, 3) == 0 ? 500 : 4);
        }
        arrays->key_mask[i] = (uint8_t)value;
    }
    return (attn_mask){.causal = c->causal,
                       .lengths = c->use_lengths ? arrays->lengths : NULL,
                       .key_mask = c->use_key_mask ? arrays->key_mask : NULL};
}

/* What a case is called in messages, in static storage that the next call overwrites. */
static const char *describe(const masked_case *c, attn_isa isa)
{
    static char text[160];
    const attn_shape *s = &c->shape;
    snprintf(text, sizeof text, "%s batch %d heads %d/%d n %d m %d d %d dv %d%s%s%s",
             attn_isa_name(isa), (int)s->batch, (int)s->heads, (int)s->kv_heads, (int)s->n,
             (int)s->m, (int)s->d, (int)s->dv, c->causal ? " causal" : "",
             c->use_lengths ? " lengths" : "", c->use_key_mask ? " key_mask" : "");
    return text;
}

/* Scores computed beyond the visible pairs. Rows of a panel share the keys that any of them sees.
 * Lengths and key masks hide the same keys from all of them, so only the diagonal costs: the r-th
 * row from the last computes r scores more than it sees, at most rows (rows - 1) / 2 a panel. */
static uint64_t slack(const attn_plan *plan)
{
    uint64_t rows = (uint64_t)plan->kernels->panel_rows;
    uint64_t panels = ((uint64_t)plan->tile_rows + rows - 1) / rows;
    return plan->params.mask.causal
               ? (uint64_t)plan->phases[0].tiles * panels * rows * (rows - 1) / 2
               : 0;
}

static void test_masks_skip_work(void)
{
    static mask_arrays masks;
    for (int i = 0; i < MASKED_CASES; i++) {
        const masked_case *c = &masked_cases[i];
        attend_arrays arrays = attend_arrays_open(&c->shape, 1);
        attn_mask mask = make_mask(c, &masks);
        uint64_t visible = attend_visible_pairs(&c->shape, &mask);
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            attend_call call = attend_dense(&c->shape, &arrays, k->isa);
            call.mask = mask;
            attend_result result;
            attn_status status = attend_run(&call, &result, NULL);
            CHECK(status == ATTN_OK, "%s: %s", describe(c, k->isa), attn_status_name(status));
            CHECK(result.scores >= visible && result.scores <= visible + slack(&result.plan),
                  "%s: %llu scores for %llu visible pairs, %llu more allowed", describe(c, k->isa),
                  (unsigned long long)result.scores, (unsigned long long)visible,
                  (unsigned long long)slack(&result.plan));
            CHECK(k->isa != ATTN_ISA_SCALAR || result.scores == visible,
                  "%s: scalar computes what is visible and nothing else", describe(c, k->isa));
        }
        attend_arrays_close(&arrays);
    }
}

/* The bits of the answer do not depend on the order of tiles or on their size. */
static void check_bits(const masked_case *c, const attend_arrays *arrays, attend_call call)
{
    size_t bytes = arrays->out_count * sizeof(float);
    float *first = malloc(bytes);
    int panel = attn_kernels_find(call.isa)->panel_rows;
    for (int panels = 1; panels <= 4; panels++) {
        call.tile_rows = panels * panel;
        for (int order = 0; order < ATTEND_ORDERS; order++) {
            attend_result result;
            call.order = (attend_order)order;
            memset(arrays->out, 0xFF, bytes);
            attn_status status = attend_run(&call, &result, NULL);
            if (panels == 1 && order == 0)
                memcpy(first, arrays->out, bytes);
            CHECK(status == ATTN_OK && memcmp(first, arrays->out, bytes) == 0,
                  "%s: tiles of %d rows in order %d change bits", describe(c, call.isa),
                  result.plan.tile_rows, order);
        }
    }
    free(first);
}

static void test_bits_whatever_the_tiles(void)
{
    static mask_arrays masks;
    for (int i = 0; i < MASKED_CASES; i++) {
        const masked_case *c = &masked_cases[i];
        if (c->shape.m > 1000)
            continue;
        attend_arrays arrays = attend_arrays_open(&c->shape, 2);
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            attend_call call = attend_dense(&c->shape, &arrays, k->isa);
            call.mask = make_mask(c, &masks);
            check_bits(c, &arrays, call);
        }
        attend_arrays_close(&arrays);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static double largest(const float *x, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Keys cut into `ranges`: in whatever order tiles run, the answer has the same bits, is near that
 * of uncut keys, and 0 where that is; a range costs a row at most a few roundings, of its answer,
 * its sum and their product. Nothing is computed twice, and workspace is what was promised. */
static void check_ranges(const masked_case *c, const attend_arrays *arrays, attend_call call,
                         const float *whole, int ranges)
{
    const attn_shape *s = &c->shape;
    size_t bytes = arrays->out_count * sizeof(float);
    float *first = malloc(bytes);
    uint64_t visible = attend_visible_pairs(s, &call.mask);
    double bound = largest(arrays->v, (size_t)(s->batch * s->kv_heads * s->m * s->dv));
    bound *= 2e-6 + 4 * ranges * 0x1p-24;
    call.key_ranges = ranges;
    for (int order = 0; order < ATTEND_ORDERS; order++) {
        attend_result result;
        call.order = (attend_order)order;
        memset(arrays->out, 0xFF, bytes);
        attn_status status = attend_run(&call, &result, NULL);
        double promised = (double)attn_plan_bytes(&result.plan, 1);
        if (order == 0)
            memcpy(first, arrays->out, bytes);
        CHECK(status == ATTN_OK && memcmp(first, arrays->out, bytes) == 0,
              "%s in %d ranges: order %d changes bits", describe(c, call.isa), ranges, order);
        CHECK(result.plan.phase_count == result.plan.ranges.count &&
                  result.plan.ranges.count <= ranges &&
                  result.plan.ranges.count >= smaller(s->m, 2),
              "%s in %d ranges: %d phases", describe(c, call.isa), ranges, result.plan.phase_count);
        CHECK(result.scores >= visible && result.scores <= visible + slack(&result.plan),
              "%s in %d ranges: %llu scores for %llu visible pairs, %llu more allowed",
              describe(c, call.isa), ranges, (unsigned long long)result.scores,
              (unsigned long long)visible, (unsigned long long)slack(&result.plan));
        CHECK((double)result.peak_bytes <= promised && (double)result.peak_bytes >= 0.8 * promised,
              "%s in %d ranges: took %zu bytes of %g", describe(c, call.isa), ranges,
              result.peak_bytes, promised);
    }
    for (size_t i = 0; i < arrays->out_count; i++)
        CHECK(fabs((double)first[i] - whole[i]) <= bound &&
                  (whole[i] != 0 || memcmp(&first[i], &whole[i], sizeof *first) == 0),
              "%s in %d ranges: output %zu is %g, uncut %g", describe(c, call.isa), ranges, i,
              first[i], whole[i]);
    free(first);
}

static void test_ranges_of_keys(void)
{
    static const int ranges[] = {2, 3, 10, ATTN_FUSED_MOST_RANGES};
    static mask_arrays masks;
    for (int i = 0; i < MASKED_CASES; i++) {
        const masked_case *c = &masked_cases[i];
        attend_arrays arrays = attend_arrays_open(&c->shape, 6);
        float *whole = malloc(arrays.out_count * sizeof *whole);
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            attend_call call = attend_dense(&c->shape, &arrays, k->isa);
            attend_result result;
            call.mask = make_mask(c, &masks);
            attend_run(&call, &result, NULL);
            memcpy(whole, arrays.out, arrays.out_count * sizeof *whole);
            for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
                check_ranges(c, &arrays, call, whole, ranges[r]);
        }
        free(whole);
        attend_arrays_close(&arrays);
    }
}

/* A tile is about a millisecond's work however many keys there are, until ranges run out. */
static void test_tiles_stay_short(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        for (int64_t m = 64; m <= 1 << 18; m *= 4)
            for (int causal = 0; causal < 2; causal++) {
                attn_machine machine = attend_machine(k->isa, 0);
                attn_mix_params params = {.scale = 1, .mask.causal = causal != 0};
                const attn_shape shape = {1, 1, 1, m, m, 64, 64};
                attn_plan plan = {0};
                attn_mixer_plan(attn_mixer_find("exact"), &machine, &params, &shape, &plan, NULL);
                double keys = fmin((double)m, (double)plan.ranges.keys);
                CHECK(plan.tile_rows * keys * 4 * 64 <= 1.01 * k->tile_flops,
                      "%s: a tile of %d rows and %g keys at n = %lld", attn_isa_name(k->isa),
                      plan.tile_rows, keys, (long long)m);
                CHECK(m > 1 << 11 || plan.phase_count == 1, "%s: %d phases at n = %lld",
                      attn_isa_name(k->isa), plan.phase_count, (long long)m);
            }
}

/* to[(b, i, h)] = from[(b, h, i)] rows of `columns`, or back. */
static void interleave(const float *from, float *to, int64_t batch, int64_t heads, int64_t rows,
                       int64_t columns, bool back)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rows; i++) {
                int64_t apart = ((b * heads + h) * rows + i) * columns;
                int64_t together = ((b * rows + i) * heads + h) * columns;
                memcpy(to + (back ? apart : together), from + (back ? together : apart),
                       (size_t)columns * sizeof(float));
            }
}

/* A view of (batch, rows, heads, columns), as one projection for all heads leaves it. */
static attn_view interleaved_view(float *data, int64_t heads, int64_t rows, int64_t columns)
{
    return (attn_view){
        .data = data, .batch = rows * heads * columns, .head = columns, .row = heads * columns};
}

static void check_interleaved(const attn_shape *s, attn_isa isa)
{
    attend_arrays apart = attend_arrays_open(s, 3), together = attend_arrays_open(s, 4);
    attend_call call = attend_dense(s, &apart, isa);
    call.mask.causal = true;
    attend_result result;
    attn_status status = attend_run(&call, &result, NULL);
    interleave(apart.q, together.q, s->batch, s->heads, s->n, s->d, false);
    interleave(apart.k, together.k, s->batch, s->kv_heads, s->m, s->d, false);
    interleave(apart.v, together.v, s->batch, s->kv_heads, s->m, s->dv, false);
    call.q = interleaved_view(together.q, s->heads, s->n, s->d);
    call.k = interleaved_view(together.k, s->kv_heads, s->m, s->d);
    call.v = interleaved_view(together.v, s->kv_heads, s->m, s->dv);
    call.out = interleaved_view(together.out, s->heads, s->n, s->dv);
    if (status == ATTN_OK)
        status = attend_run(&call, &result, NULL);
    float *back = malloc(apart.out_count * sizeof *back);
    interleave(together.out, back, s->batch, s->heads, s->n, s->dv, true);
    CHECK(status == ATTN_OK && memcmp(apart.out, back, apart.out_count * sizeof *back) == 0,
          "%s: interleaved heads change the answer", attn_isa_name(isa));
    free(back);
    attend_arrays_close(&apart);
    attend_arrays_close(&together);
}

static void test_interleaved_heads(void)
{
    const attn_shape shape = {2, 6, 3, 49, 97, 7, 5};
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        check_interleaved(&shape, k->isa);
}

/* Measured workspace is never above the promise, and the promise never far above. */
static void test_workspace_as_promised(void)
{
    static mask_arrays masks;
    for (int i = 0; i < MASKED_CASES; i++) {
        const masked_case *c = &masked_cases[i];
        attend_arrays arrays = attend_arrays_open(&c->shape, 5);
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            attend_call call = attend_dense(&c->shape, &arrays, k->isa);
            call.mask = make_mask(c, &masks);
            attend_result result;
            attn_status status = attend_run(&call, &result, NULL);
            double promised = (double)attn_plan_bytes(&result.plan, 1);
            CHECK(status == ATTN_OK && (double)result.peak_bytes <= promised &&
                      (double)result.peak_bytes >= 0.8 * promised,
                  "%s: took %zu bytes of %g", describe(c, k->isa), result.peak_bytes, promised);
        }
        attend_arrays_close(&arrays);
    }
}

/* Workspace depends on the columns and never grows with the number of keys, but for a softmax's
 * state a row where those are cut into ranges. */
static void test_workspace_is_constant(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            attn_machine machine = attend_machine(k->isa, 1e9);
            attn_shape shape = {1, 1, 1, i ? 1 << 20 : 96, i ? 1 << 20 : 96, 64, 64};
            attn_mix_params params = {.scale = 1};
            attn_plan plan = {0};
            attn_mixer_plan(attn_mixer_find("exact"), &machine, &params, &shape, &plan, NULL);
            bytes[i] =
                attn_plan_bytes(&plan, 1) - (i ? (size_t)shape.n * sizeof(attn_row_state) : 0);
        }
        CHECK(bytes[0] >= bytes[1], "%s: %zu bytes at n = 96, %zu at 2^20", attn_isa_name(k->isa),
              bytes[0], bytes[1]);
    }
}

/* What the plan predicts at these rates for one of the masked cases. */
static double predicted_ns(const masked_case *c, const attn_rates *rates)
{
    static mask_arrays masks;
    attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 0);
    machine.rates = *rates;
    attn_mix_params params = {.scale = 1, .mask = make_mask(c, &masks)};
    attn_plan plan = {0};
    attn_mixer_plan(attn_mixer_find("exact"), &machine, &params, &c->shape, &plan, NULL);
    return attn_plan_ns(&plan);
}

/* The predicted time is the visible pairs, with some more where a row's keys end (scalar kernels
 * take a key at a time, so one a row); and no other rate counts but those of the fused tile. */
static void test_predicted_time(void)
{
    static mask_arrays masks;
    for (int i = 0; i < MASKED_CASES; i++) {
        masked_case c = masked_cases[i];
        c.use_key_mask = false;
        const attn_mask mask = make_mask(&c, &masks);
        double pairs = (double)attend_visible_pairs(&c.shape, &mask);
        /* Of two tiles' worth at most, the last may be filled by a row. */
        double rows = 2 * (double)(c.shape.batch * c.shape.heads * c.shape.n);
        double flops = predicted_ns(&c, &(attn_rates){.attend_flop_ns = 1});
        double each = 2 * (double)(c.shape.d + c.shape.dv);
        CHECK(flops >= (1 - 1e-9) * pairs * each && flops <= (1 + 1e-9) * (pairs + rows) * each,
              "%s: predicted %g flops, %g pairs of %g", describe(&c, ATTN_ISA_SCALAR), flops, pairs,
              each);
        double scores = predicted_ns(&c, &(attn_rates){.attend_score_ns = 1});
        CHECK(fabs(scores * each - flops) <= 1e-9 * flops, "%s: predicted %g scores, %g flops",
              describe(&c, ATTN_ISA_SCALAR), scores, flops);
        attn_rates others = attn_rates_default();
        others.attend_flop_ns = others.attend_score_ns = 0;
        others.attend_panel_ns = others.attend_tile_ns = 0;
        CHECK(predicted_ns(&c, &others) == 0, "%s: predicted %g ns by rates that are not its own",
              describe(&c, ATTN_ISA_SCALAR), predicted_ns(&c, &others));
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"vectors", test_vectors},
        {"masks skip work", test_masks_skip_work},
        {"bits whatever the tiles", test_bits_whatever_the_tiles},
        {"ranges of keys", test_ranges_of_keys},
        {"tiles stay short", test_tiles_stay_short},
        {"interleaved heads", test_interleaved_heads},
        {"workspace as promised", test_workspace_as_promised},
        {"workspace is constant", test_workspace_is_constant},
        {"predicted time", test_predicted_time},
        {NULL, NULL},
    };
    return test_main("exact", cases);
}
