/* What every attention variant has to keep, with the vectors of all of them: close to float64, bits
 * that no order of tiles changes, workspace as promised, padding without effect, and sizes that
 * cannot be refused rather than overflown. */
#include "attn/blas.h"
#include "tests/support/attend.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/support/vector.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A vector, and how it is computed. */
typedef struct subject {
    const char *name;
    test_vector *x;
    attn_isa isa;
    int key_ranges; /* as in attend_call */
} subject;

static attend_call call_of(const subject *of)
{
    const test_vector *x = of->x;
    attend_call call = attend_dense(&x->shape, &x->arrays, of->isa);
    call.key_ranges = of->key_ranges;
    call.mixer = x->mixer;
    call.params = &x->params;
    call.mask = x->mask;
    call.scale = x->scale;
    return call;
}

/* In static storage that the next call overwrites. */
static const char *label(const subject *of)
{
    static char text[160];
    snprintf(text, sizeof text, "%s on %s in %d ranges", of->name, attn_isa_name(of->isa),
             of->key_ranges);
    return text;
}

/* Rows whose expected answer is nothing but 0 see no key, and are +0 to the bit. */
static void check_empty_rows(const subject *of)
{
    const test_vector *x = of->x;
    const attn_shape *s = &x->shape;
    for (size_t row = 0; row < x->arrays.out_count; row += (size_t)s->dv) {
        uint32_t found = 0;
        bool empty = true;
        for (int64_t c = 0; c < s->dv; c++) {
            uint32_t bits;
            memcpy(&bits, &x->arrays.out[row + (size_t)c], sizeof bits);
            found |= bits;
            empty &= x->expected[row + (size_t)c] == 0;
        }
        CHECK(!empty || found == 0, "%s: row %zu sees no key but is not +0", label(of),
              row / (size_t)s->dv);
    }
}

static void check_vector(const subject *of)
{
    const test_vector *x = of->x;
    attend_call call = call_of(of);
    attend_result result;
    attn_error error = {0};
    attn_status status = attend_run(&call, &result, &error);
    CHECK(status == ATTN_OK, "%s: %s %s", label(of), attn_status_name(status), error.message);
    double worst = 0;
    for (size_t i = 0; i < x->arrays.out_count; i++) {
        double off = fabs(x->arrays.out[i] - x->expected[i]);
        worst = !(off <= worst) ? off : worst;
    }
    CHECK(worst <= x->tolerance, "%s: off by %.3g, allowed %.3g", label(of), worst, x->tolerance);
    check_empty_rows(of);
}

/* Measured workspace is never above the promise, and the promise not idle. Scratch serves the
 * hungriest of a plan's phases, and a batch row without keys may leave it alone, so half will do.
 */
static void check_workspace(const subject *of)
{
    attend_call call = call_of(of);
    attend_result result;
    attn_status status = attend_run(&call, &result, NULL);
    size_t promised = attn_plan_bytes(&result.plan, 1);
    CHECK(status == ATTN_OK && result.peak_bytes <= promised && result.peak_bytes >= promised / 2,
          "%s: took %zu bytes of %zu", label(of), result.peak_bytes, promised);
}

/* An executor lets phases wait for each other, and nothing else: tiles run in any order. */
static void check_order(const subject *of)
{
    const attend_arrays *arrays = &of->x->arrays;
    size_t bytes = arrays->out_count * sizeof(float);
    float *first = malloc(bytes);
    for (int order = 0; order < ATTEND_ORDERS; order++) {
        attend_call call = call_of(of);
        attend_result result;
        call.order = (attend_order)order;
        memset(arrays->out, 0xFF, bytes);
        attn_status status = attend_run(&call, &result, NULL);
        if (order == 0)
            memcpy(first, arrays->out, bytes);
        CHECK(status == ATTN_OK && memcmp(first, arrays->out, bytes) == 0,
              "%s: order %d of tiles changes bits", label(of), order);
    }
    free(first);
}

static void check_all(const char *name, test_vector *x, attn_isa isa)
{
    static const int key_ranges[] = {0, 2, 9};
    for (size_t i = 0; i < sizeof key_ranges / sizeof *key_ranges; i++) {
        const subject of = {name, x, isa, key_ranges[i]};
        check_vector(&of);
        check_workspace(&of);
        check_order(&of);
    }
}

static bool is_vector(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".vec") == 0;
}

/* Hold every vector against `check`, on every instruction set; `seen` notes its mixer. */
static void test_vectors(void)
{
    static const char *const mixers[] = {"window", "sparse", "linformer", "performer"};
    int seen[4] = {0};
    const char *root = getenv("ATTN_VECTORS");
    char folder[1024], path[2048];
    snprintf(folder, sizeof folder, "%s/variants", root ? root : ".");
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!is_vector(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        test_vector x;
        bool whole = test_vector_open(path, &x);
        CHECK(whole, "%s is no vector", path);
        for (const attn_kernels *k = kernels_after(NULL); whole && k; k = kernels_after(k))
            check_all(entry->d_name, &x, k->isa);
        for (int i = 0; i < 4; i++)
            seen[i] += strcmp(x.mixer, mixers[i]) == 0;
        test_vector_close(&x);
    }
    if (listing)
        closedir(listing);
    for (int i = 0; i < 4; i++)
        CHECK(seen[i] > 0,
              "no vectors of %s; make them with tests/vectors/make_vectors.py DIR and set "
              "ATTN_VECTORS=DIR",
              mixers[i]);
}

/* One way to call each variant, for what holds for all of them. */
typedef struct variant {
    const char *mixer;
    bool causal;
    attn_pattern pattern;
    attn_projection projection;
} variant;

static const variant variants[] = {
    {"window", false, ATTN_STRIDED, ATTN_MEAN},
    {"window", true, ATTN_STRIDED, ATTN_MEAN},
    {"sparse", false, ATTN_STRIDED, ATTN_MEAN},
    {"sparse", true, ATTN_STRIDED, ATTN_MEAN},
    {"sparse", false, ATTN_FIXED, ATTN_MEAN},
    {"sparse", true, ATTN_FIXED, ATTN_MEAN},
    {"sparse", false, ATTN_LOCAL, ATTN_MEAN},
    {"sparse", true, ATTN_LOCAL, ATTN_MEAN},
    {"linformer", false, ATTN_STRIDED, ATTN_MEAN},
    {"linformer", false, ATTN_STRIDED, ATTN_GAUSSIAN},
    {"performer", false, ATTN_STRIDED, ATTN_MEAN},
    {"performer", true, ATTN_STRIDED, ATTN_MEAN},
};

enum {
    VARIANTS = sizeof variants / sizeof *variants
};

static attn_mix_params params_of(const variant *v, int64_t d)
{
    attn_mix_params params;
    attn_mix_params_init(&params, d);
    params.mask.causal = v->causal;
    params.pattern = v->pattern;
    params.projection = v->projection;
    params.window = 9;
    params.stride = 12;
    params.k = 20;
    params.features = 24;
    params.seed = 3;
    return params;
}

/* In static storage that the next call overwrites. */
static const char *describe(const variant *v, attn_isa isa)
{
    static char text[96];
    snprintf(text, sizeof text, "%s pattern %d projection %d%s on %s", v->mixer, (int)v->pattern,
             (int)v->projection, v->causal ? " causal" : "", attn_isa_name(isa));
    return text;
}

/* The answer of a call, in memory of its own. */
static float *answer(const variant *v, const attend_arrays *arrays, const attn_shape *shape,
                     const int64_t *lengths, attn_isa isa)
{
    size_t count = (size_t)(shape->batch * shape->heads * shape->n * shape->dv);
    float *out = malloc(count * sizeof *out);
    attn_mix_params params = params_of(v, shape->d);
    attend_call call = attend_dense(shape, arrays, isa);
    call.mixer = v->mixer;
    call.params = &params;
    call.mask = (attn_mask){.causal = v->causal, .lengths = lengths};
    call.out = attn_view_dense(out, shape->heads, shape->n, shape->dv);
    attend_result result;
    attn_error error = {0};
    attn_status status = attend_run(&call, &result, &error);
    CHECK(status == ATTN_OK, "%s: %s", describe(v, isa), error.message);
    return out;
}

/* Of one row of a batch of one head, `padding` positions that hold what would change anything if it
 * were looked at. Chunks and tiles begin at the same positions with and without padding, so that
 * bits are the same: the longer call only has more of them. */
static void check_padding(const variant *v, int64_t length, int64_t padding, attn_isa isa)
{
    const attn_shape whole = {1, 1, 1, length + padding, length + padding, 7, 5};
    const attn_shape part = {1, 1, 1, length, length, 7, 5};
    attend_arrays arrays = attend_arrays_open(&whole, 8);
    for (int64_t i = length; i < whole.n; i++)
        for (int64_t c = 0; c < 7; c++)
            arrays.q[i * 7 + c] = arrays.k[i * 7 + c] = 1e30F;
    for (int64_t i = length * 5; i < whole.n * 5; i++)
        arrays.v[i] = -1e30F;
    float *padded = answer(v, &arrays, &whole, &length, isa);
    float *plain = answer(v, &arrays, &part, NULL, isa);
    CHECK(memcmp(padded, plain, (size_t)length * 5 * sizeof *plain) == 0,
          "%s: padding %lld rows by %lld changes bits", describe(v, isa), (long long)length,
          (long long)padding);
    for (int64_t i = length * 5; i < whole.n * 5; i++)
        CHECK(padded[i] == 0 && !signbit(padded[i]), "%s: padding answers %g", describe(v, isa),
              padded[i]);
    free(padded);
    free(plain);
    attend_arrays_close(&arrays);
}

static void test_padding_changes_nothing(void)
{
    static const int64_t sizes[][2] = {{1, 1}, {5, 100}, {100, 1}, {129, 500}, {700, 600}};
    for (int i = 0; i < VARIANTS; i++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
            for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
                check_padding(&variants[i], sizes[j][0], sizes[j][1], k->isa);
}

/* Under a causal mask no bit of a row depends on later keys or values, however large they are. */
static void check_causal(const variant *v, int64_t n, int64_t m, int64_t changed, attn_isa isa)
{
    const attn_shape shape = {1, 1, 1, n, m, 7, 5};
    attend_arrays arrays = attend_arrays_open(&shape, 9);
    float *before = answer(v, &arrays, &shape, NULL, isa);
    for (int64_t i = changed * 7; i < m * 7; i++)
        arrays.k[i] = 30 * arrays.k[i] + 1;
    for (int64_t i = changed * 5; i < m * 5; i++)
        arrays.v[i] = -1e3F * arrays.v[i];
    float *after = answer(v, &arrays, &shape, NULL, isa);
    int64_t rows = changed - (m - n);
    rows = rows < 0 ? 0 : rows < n ? rows : n;
    CHECK(memcmp(before, after, (size_t)rows * 5 * sizeof *before) == 0,
          "%s: n %lld m %lld, a change of key %lld is seen before it", describe(v, isa),
          (long long)n, (long long)m, (long long)changed);
    free(before);
    free(after);
    attend_arrays_close(&arrays);
}

static void test_no_glimpse_of_the_future(void)
{
    static const int64_t sizes[][3] = {{50, 50, 25},      {1100, 1100, 1},    {1100, 1100, 511},
                                       {1100, 1100, 512}, {1100, 1100, 1000}, {300, 900, 700},
                                       {900, 300, 200}};
    for (int i = 0; i < VARIANTS; i++)
        for (const attn_kernels *k = kernels_after(NULL); variants[i].causal && k;
             k = kernels_after(k))
            for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
                check_causal(&variants[i], sizes[j][0], sizes[j][1], sizes[j][2], k->isa);
}

/* Denormal numbers are numbers: beside zeros for q and k they change nothing that float32 could
 * tell, and as values they come back as good as they went in. */
static void check_denormal(const variant *v, attn_isa isa)
{
    const attn_shape shape = {1, 2, 1, 200, 200, 7, 5};
    const float tiny = 1e-40F;
    attend_arrays arrays = attend_arrays_open(&shape, 6);
    for (int i = 0; i < 2 * 200 * 7; i++)
        arrays.q[i] = 0;
    float *zero = answer(v, &arrays, &shape, NULL, isa);
    for (int i = 0; i < 2 * 200 * 7; i++)
        arrays.q[i] = i % 2 ? -tiny : tiny;
    float *denormal = answer(v, &arrays, &shape, NULL, isa);
    for (int i = 0; i < 200 * 5; i++)
        arrays.v[i] = tiny;
    float *values = answer(v, &arrays, &shape, NULL, isa);
    for (size_t i = 0; i < arrays.out_count; i++) {
        CHECK(fabsf(denormal[i] - zero[i]) <= 1e-6F, "%s: %g for denormal q, %g for 0",
              describe(v, isa), denormal[i], zero[i]);
        /* Random projections do not keep a constant. */
        CHECK(v->projection == ATTN_GAUSSIAN || fabsf(values[i] - tiny) <= 1e-42F,
              "%s: %g of values %g", describe(v, isa), values[i], tiny);
        CHECK(fabsf(values[i]) <= 1e-38F, "%s: %g of values %g", describe(v, isa), values[i], tiny);
    }
    free(zero);
    free(denormal);
    free(values);
    attend_arrays_close(&arrays);
}

static void test_denormal(void)
{
    for (int i = 0; i < VARIANTS; i++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
            check_denormal(&variants[i], k->isa);
}

typedef struct wild_size {
    const char *mixer, *param; /* NULL: may also be planned, with bytes that did not overflow */
    attn_shape shape;
    attn_projection projection;
    attn_pattern pattern;
    int64_t window, stride, summary, k, features;
} wild_size;

static const wild_size wild_sizes[] = {
    {"window", "params.window", {1, 1, 1, 8, 8, 4, 4}, 0, 0, 0, 0, 1, 1, 1},
    {"window", "params.window", {1, 1, 1, 8, 8, 4, 4}, 0, 0, INT64_MIN, 0, 1, 1, 1},
    {"window", NULL, {1, 1, 1, 8, 8, 4, 4}, 0, 0, INT32_MAX, 0, 1, 1, 1},
    {"sparse", "params.stride", {1, 1, 1, 8, 8, 4, 4}, 0, ATTN_FIXED, 1, -1, 1, 1, 1},
    {"sparse", "params.summary", {1, 1, 1, 8, 8, 4, 4}, 0, ATTN_FIXED, 1, 4, 0, 1, 1},
    {"sparse", NULL, {1, 1, 1, 8, 8, 4, 4}, 0, ATTN_FIXED, 1, INT32_MAX, 1, 1, 1},
    {"sparse", NULL, {1, 1, 1, 8, 8, 4, 4}, 0, ATTN_STRIDED, 1, INT32_MAX, 1, 1, 1},
    {"sparse", NULL, {1, 1, 1, 8, 8, 4, 4}, 0, ATTN_LOCAL, 1, INT32_MAX, 1, 1, 1},
    {"sparse", NULL, {1, 1, 1, 8, 1 << 30, 4, 4}, 0, ATTN_FIXED, 1, INT32_MAX, INT32_MAX, 1, 1},
    {"sparse", "n", {1 << 20, 1 << 20, 1, INT32_MAX, 8, 4, 4}, 0, ATTN_STRIDED, 1, 0, 1, 1, 1},
    {"linformer", "params.k", {1, 1, 1, 8, 8, 4, 4}, 0, 0, 1, 0, 1, 0, 1},
    {"linformer", "params.k", {1, 1, 1, 8, 8, 4, 4}, 0, 0, 1, 0, 1, (int64_t)1 << 40, 1},
    {"linformer", NULL, {1, 1, 1, 8, 8, 4, 4}, ATTN_GAUSSIAN, 0, 1, 0, 1, 1000000000, 1},
    {"linformer",
     "params.k",
     {1 << 20, 1 << 20, 1 << 20, 8, 8, 4, 4},
     ATTN_GAUSSIAN,
     0,
     1,
     0,
     1,
     1000000000,
     1},
    {"performer", "params.features", {1, 1, 1, 8, 8, 4, 4}, 0, 0, 1, 0, 1, 1, 0},
    {"performer", "params.features", {1, 1, 1, 8, 8, 4, 4}, 0, 0, 1, 0, 1, 1, 1000000000},
    {"performer", NULL, {1, 1, 1, 8, 8, 256, 4}, 0, 0, 1, 0, 1, 1, 1 << 20},
    {"performer", NULL, {1, 1, 1, 8, 8, 256, 256}, 0, 0, 1, 0, 1, 1, 1 << 13},
    {"performer", NULL, {1, 1, 1, 8, 8, 257, 4}, 0, 0, 1, 0, 1, 1, 8},
    {"performer", NULL, {1, 1, 1, 8, 8, INT32_MAX, 4}, 0, 0, 1, 0, 1, 1, 8},
    {"performer", "params.features", {1, 1, 1, 8, 8, INT32_MAX, 4}, 0, 0, 1, 0, 1, 1, 1 << 23},
    {"performer", "batch", {1 << 20, 1 << 20, 1, INT32_MAX, 8, 4, 4}, 0, 0, 1, 0, 1, 1, 1},
};

static void check_wild(const wild_size *w)
{
    attn_machine machine = attend_machine(ATTN_ISA_SCALAR, 0);
    attn_mix_params params = {.scale = 1,
                              .window = w->window,
                              .pattern = w->pattern,
                              .stride = w->stride,
                              .summary = w->summary,
                              .projection = w->projection,
                              .k = w->k,
                              .features = w->features,
                              .orthogonal = true};
    attn_plan plan;
    attn_error error = {0};
    attn_status status =
        attn_mixer_plan(attn_mixer_find(w->mixer), &machine, &params, &w->shape, &plan, &error);
    long long i = w - wild_sizes;
    if (w->param) {
        CHECK((status == ATTN_INVALID || status == ATTN_UNSUPPORTED) &&
                  strcmp(error.param, w->param) == 0 && strlen(error.message) > 10,
              "case %lld: %s, \"%s\" \"%s\"; expected %s", i, attn_status_name(status), error.param,
              error.message, w->param);
        return;
    }
    CHECK(status == ATTN_OK && attn_plan_bytes(&plan, 1) < (size_t)1 << 50, "case %lld: %s %s", i,
          attn_status_name(status), error.message);
    /* Work that is not there makes no tiles: these are small or as many as rows or means. */
    for (int p = 0; p < plan.phase_count; p++)
        CHECK(plan.phases[p].tiles <= 1000000000, "case %lld: %lld tiles", i,
              (long long)plan.phases[p].tiles);
}

static void test_wild_sizes(void)
{
    for (size_t i = 0; i < sizeof wild_sizes / sizeof *wild_sizes; i++)
        check_wild(&wild_sizes[i]);
}

/* Parameters as large as they can be, on small tensors: the answers are those of exact attention
 * where nothing is left out, and come at once. */
static void test_largest_parameters(void)
{
    const attn_shape shape = {1, 2, 1, 30, 30, 5, 3};
    attend_arrays arrays = attend_arrays_open(&shape, 5);
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        static const variant exact = {"exact", false, ATTN_STRIDED, ATTN_MEAN};
        float *wanted = answer(&exact, &arrays, &shape, NULL, k->isa);
        for (int i = 0; i < VARIANTS; i++) {
            const variant *v = &variants[i];
            attn_mix_params params = params_of(v, shape.d);
            params.window = params.stride = params.k = INT32_MAX;
            params.mask.causal = false;
            if (v->causal || v->projection == ATTN_GAUSSIAN || strcmp(v->mixer, "performer") == 0)
                continue;
            attend_call call = attend_dense(&shape, &arrays, k->isa);
            call.mixer = v->mixer;
            call.params = &params;
            attend_result result;
            attn_status status = attend_run(&call, &result, NULL);
            double worst = 0;
            for (size_t j = 0; j < arrays.out_count; j++)
                worst = fmax(worst, fabs((double)arrays.out[j] - wanted[j]));
            /* Twice exact attention's 1e-6 of the largest |v|, which is below 5. */
            CHECK(status == ATTN_OK && worst < 1e-5, "%s: %s, off by %g", describe(v, k->isa),
                  attn_status_name(status), worst);
            for (int p = 0; p < result.plan.phase_count; p++)
                CHECK(result.plan.phases[p].tiles <= 2 * 30 * 2, "%s: %lld tiles",
                      describe(v, k->isa), (long long)result.plan.phases[p].tiles);
        }
        free(wanted);
    }
    attend_arrays_close(&arrays);
}

int main(void)
{
    attn_blas_init();
    static const test_case cases[] = {
        {"vectors", test_vectors},
        {"padding changes nothing", test_padding_changes_nothing},
        {"no glimpse of the future", test_no_glimpse_of_the_future},
        {"denormal", test_denormal},
        {"wild sizes", test_wild_sizes},
        {"largest parameters", test_largest_parameters},
        {NULL, NULL},
    };
    return test_main("variants", cases);
}
