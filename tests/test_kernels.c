/* Every overlay this CPU can run against the scalar truth, on tiles as awkward as they come. */
#include "tests/support/attend.h"
#include "tests/support/suite.h"
#include "tests/support/tile.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int row_counts[] = {1, 2, 23, 24, 25, 47, 48, 49, 95, 96};
static const int key_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 23, 24, 25, 191, 192, 193, 385, 1000};
static const int column_counts[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 80, 96, 128};

enum {
    ROW_COUNTS = sizeof row_counts / sizeof *row_counts,
    KEY_COUNTS = sizeof key_counts / sizeof *key_counts,
    COLUMN_COUNTS = sizeof column_counts / sizeof *column_counts,
    KEY_BLOCK = 192, /* keys an overlay adds up before it touches the running answer */
};

static const double unit_roundoff = 0x1p-24;

static const attn_kernels *first_overlay(void)
{
    return kernels_after(&attn_kernels_scalar);
}

static size_t workspace_of(const tile_case *c, const attn_kernels *kernels)
{
    return kernels->attend_bytes(c->spec.rows, c->spec.d, c->spec.dv, c->key_mask != NULL);
}

/* What bounds row r's rounding errors. */
typedef struct row_facts {
    int visible;  /* keys */
    double logit; /* largest scale * sum |q_i k_i| of a visible key */
    double v;     /* largest |v| of a visible key */
} row_facts;

static row_facts facts_of(const tile_case *c, int r)
{
    const attn_tile *t = &c->tile;
    row_facts facts = {0};
    for (int j = 0; j < c->spec.keys; j++) {
        if (!tile_sees(c, r, j))
            continue;
        double size = 0;
        for (int i = 0; i < t->d; i++)
            size += fabs((double)t->q[r * t->q_stride + i] * t->k[j * t->k_stride + i]);
        facts.logit = fmax(facts.logit, t->scale * size);
        for (int i = 0; i < t->dv; i++)
            facts.v = fmax(facts.v, fabs((double)t->v[j * t->v_stride + i]));
        facts.visible++;
    }
    return facts;
}

/* Rounding of the sums over keys, in units of |v|. A rounding is uniform in [-u, u] relative to the
 * partial sum, so its deviation is u / sqrt(3); partial sums grow about linearly, which makes the
 * deviation of a sum of n terms u sqrt(n) / 3, and sqrt(n) u three of them. There are two such sums
 * (of p v and of p), each within blocks of keys and again over the blocks, and four more roundings
 * (the rescaling's, the reciprocal's, its product's and the truth's own to float). */
static double sums_tolerance(int keys)
{
    double inside = keys < KEY_BLOCK ? keys : KEY_BLOCK, blocks = ceil((double)keys / KEY_BLOCK);
    return unit_roundoff * (2 * sqrt(inside) + 2 * sqrt(blocks) + 4);
}

/* The above, plus what errors of the weights p do. The overlay's 2^x is within 1.7e-7. A logit is
 * disturbed by the d roundings of its dot product (three deviations, as above), by those of the
 * scale, of q times the scale, and of the subtraction of a maximum that may be as large: u (sqrt(d)
 * + 4) times the sum of its terms' magnitudes. Weights that are off by x move the answer by x |v|,
 * and their sum by x again. */
static double tolerance(const tile_case *c, row_facts facts)
{
    double logit = unit_roundoff * (sqrt(c->spec.d) + 4) * facts.logit;
    return facts.v * (2 * logit + 2 * 1.7e-7 + sums_tolerance(facts.visible));
}

/* The scores an overlay may compute: a panel of rows shares every key that one of them sees. */
static uint64_t most_scores(const tile_case *c, const attn_kernels *kernels)
{
    uint64_t most = 0;
    for (int first = 0; first < c->spec.rows; first += kernels->panel_rows) {
        int end = first + kernels->panel_rows;
        end = end < c->spec.rows ? end : c->spec.rows;
        for (int j = 0; j < c->spec.keys; j++) {
            bool seen = false;
            for (int r = first; r < end && !seen; r++)
                seen = tile_sees(c, r, j);
            most += seen ? (uint64_t)(end - first) : 0;
        }
    }
    return most;
}

static bool all_zero(const float *values, int count)
{
    static const float zero = 0.0F;
    for (int i = 0; i < count; i++)
        if (memcmp(&values[i], &zero, sizeof zero) != 0)
            return false;
    return true;
}

/* Dense copy of the answer; free() it. */
static float *copy_answer(const tile_case *c)
{
    size_t row_bytes = (size_t)c->spec.dv * sizeof(float);
    float *copy = malloc((size_t)c->spec.rows * row_bytes);
    for (int r = 0; r < c->spec.rows; r++)
        memcpy(copy + r * c->spec.dv, tile_answer(c, r), row_bytes);
    return copy;
}

static void compare_row(const tile_case *c, attn_isa isa, int r, const float *truth)
{
    const float *answer = tile_answer(c, r);
    row_facts facts = facts_of(c, r);
    if (facts.visible == 0) {
        CHECK(all_zero(answer, c->spec.dv), "%s: row %d sees no key but is not +0",
              tile_describe(c, isa), r);
        return;
    }
    double bound = tolerance(c, facts), worst = 0;
    int at = 0;
    for (int i = 0; i < c->spec.dv; i++) {
        double error = fabs((double)answer[i] - truth[i]);
        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
    }
    CHECK(worst <= bound, "%s: row %d column %d is %.9g, expected %.9g within %.3g",
          tile_describe(c, isa), r, at, answer[at], truth[at], bound);
}

static void check_run(const tile_case *c, const attn_kernels *kernels, tile_result ran,
                      uint64_t visible, uint64_t most)
{
    size_t promised = workspace_of(c, kernels);
    CHECK(ran.status == ATTN_OK, "%s: status %s", tile_describe(c, kernels->isa),
          attn_status_name(ran.status));
    CHECK(!ran.strayed, "%s: wrote a guard", tile_describe(c, kernels->isa));
    CHECK(ran.peak_bytes <= promised && attn_arena_round(promised) - ran.peak_bytes < ATTN_ALIGN,
          "%s: took %zu bytes of the %zu promised", tile_describe(c, kernels->isa), ran.peak_bytes,
          promised);
    CHECK(ran.scores >= visible && ran.scores <= most, "%s: %llu scores, expected %llu to %llu",
          tile_describe(c, kernels->isa), (unsigned long long)ran.scores,
          (unsigned long long)visible, (unsigned long long)most);
}

static void check_tile(const tile_spec *spec)
{
    tile_case c;
    tile_open(&c, spec);
    uint64_t visible = most_scores(&c, &attn_kernels_scalar);
    tile_result ran = tile_run(&c, &attn_kernels_scalar, workspace_of(&c, &attn_kernels_scalar));
    check_run(&c, &attn_kernels_scalar, ran, visible, visible);
    float *truth = copy_answer(&c);
    for (int r = 0; r < spec->rows; r++)
        compare_row(&c, ATTN_ISA_SCALAR, r, truth + r * spec->dv);
    for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k)) {
        ran = tile_run(&c, k, workspace_of(&c, k));
        check_run(&c, k, ran, visible, most_scores(&c, k));
        for (int r = 0; r < spec->rows && ran.status == ATTN_OK; r++)
            compare_row(&c, k->isa, r, truth + r * spec->dv);
    }
    free(truth);
    tile_close(&c);
}

/* Every number of rows with every number of keys and every band; columns and masks take turns. */
static void test_rows_and_keys(void)
{
    uint64_t seed = 1;
    for (int r = 0; r < ROW_COUNTS; r++)
        for (int k = 0; k < KEY_COUNTS; k++)
            for (int band = 0; band < TILE_BANDS; band++, seed++)
                check_tile(&(tile_spec){.rows = row_counts[r],
                                        .keys = key_counts[k],
                                        .d = column_counts[seed % COLUMN_COUNTS],
                                        .dv = column_counts[seed / 3 % COLUMN_COUNTS],
                                        .band = (tile_band)band,
                                        .mask = (tile_mask)(seed % TILE_MASKS),
                                        .gain = 1,
                                        .seed = seed});
}

/* Every d with every dv; rows, keys and masks take turns. */
static void test_columns(void)
{
    uint64_t seed = 10001;
    for (int i = 0; i < COLUMN_COUNTS; i++)
        for (int j = 0; j < COLUMN_COUNTS; j++, seed++)
            check_tile(&(tile_spec){.rows = row_counts[seed % ROW_COUNTS],
                                    .keys = key_counts[seed % KEY_COUNTS],
                                    .d = column_counts[i],
                                    .dv = column_counts[j],
                                    .mask = (tile_mask)(seed % TILE_MASKS),
                                    .gain = 1,
                                    .seed = seed});
}

/* Every band with every mask. */
static void test_bands_and_masks(void)
{
    uint64_t seed = 20001;
    for (int band = 0; band < TILE_BANDS; band++)
        for (int mask = 0; mask < TILE_MASKS; mask++)
            for (int k = 0; k < KEY_COUNTS; k++, seed++)
                check_tile(&(tile_spec){.rows = row_counts[seed % ROW_COUNTS],
                                        .keys = key_counts[k],
                                        .d = 8,
                                        .dv = 9,
                                        .band = (tile_band)band,
                                        .mask = (tile_mask)mask,
                                        .gain = 1,
                                        .seed = seed});
}

/* Holes that reach further than an overlay looks ahead for a full block of keys. */
static void test_long_holes(void)
{
    static const tile_mask masks[] = {TILE_HOLE, TILE_SPARSE, TILE_RUNS, TILE_HIDDEN};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        for (int band = 0; band < TILE_BANDS; band++)
            check_tile(&(tile_spec){.rows = 49,
                                    .keys = 9001,
                                    .d = 5,
                                    .dv = 3,
                                    .band = (tile_band)band,
                                    .mask = masks[i],
                                    .gain = 1,
                                    .seed = 30001 + (uint64_t)band});
}

/* Two keys with logits x and 0 and values 1 and 0: the answer is p / (1 + p) with p = e^x, so it
 * shows how good a single weight is. The overlay's 2^x is within 1.7e-7, and x is rounded three
 * times (the scale, the query times the scale, the product); four more roundings follow. */
static void check_weights(tile_case *c, const attn_kernels *kernels)
{
    tile_run(c, kernels, workspace_of(c, kernels));
    for (int r = 0; r < c->spec.rows; r++) {
        double x = (double)c->tile.scale * c->q[r * c->tile.q_stride], p = exp(x);
        double bound = 1.7e-7 + unit_roundoff * (4 + 3 * fabs(x)), answer = tile_answer(c, r)[0];
        if (x < -87) /* p is below 2^-125, the end of normal numbers */
            CHECK(answer >= 0 && answer <= 0x1p-125, "%s: weight of logit %.9g is %.9g",
                  tile_describe(c, kernels->isa), x, answer);
        else
            CHECK(fabs(answer - p / (1 + p)) <= bound * p,
                  "%s: weight of logit %.9g is %.9g, expected %.9g within %.3g",
                  tile_describe(c, kernels->isa), x, answer, p / (1 + p), bound * p);
    }
}

static void test_weights(void)
{
    for (int from = 0; from > -100; from--) {
        tile_case c;
        tile_open(&c, &(tile_spec){.rows = 96, .keys = 2, .d = 1, .dv = 1, .gain = 1, .seed = 9});
        for (int r = 0; r < 96; r++)
            c.q[r * c.tile.q_stride] = (float)(from - r / 96.0);
        c.k[0] = c.v[0] = 1;
        c.k[c.tile.k_stride] = c.v[c.tile.v_stride] = 0;
        for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k))
            check_weights(&c, k);
        tile_close(&c);
    }
}

/* Logits of thousands: the softmax is all but a choice, and a plain exponential would overflow. */
static void test_large_logits(void)
{
    for (int k = 0; k < KEY_COUNTS; k++)
        for (int band = 0; band < TILE_BANDS; band++)
            check_tile(&(tile_spec){.rows = 49,
                                    .keys = key_counts[k],
                                    .d = column_counts[(k + band) % COLUMN_COUNTS],
                                    .dv = 8,
                                    .band = (tile_band)band,
                                    .gain = 30,
                                    .seed = 40001 + (uint64_t)k});
}

/* Logits of 1e8, where float32 cannot tell neighbours apart: wherever one key wins by more than the
 * rounding errors and then 127 in units of log2, all others have weight 0 and the answer is its v
 * to the bit. */
static void check_winners(tile_case *c, const attn_kernels *kernels, int *rows_won)
{
    const attn_tile *t = &c->tile;
    tile_result ran = tile_run(c, kernels, workspace_of(c, kernels));
    CHECK(ran.status == ATTN_OK, "%s", tile_describe(c, kernels->isa));
    for (int r = 0; r < t->rows; r++) {
        double best = -INFINITY, second = -INFINITY;
        int winner = 0;
        for (int j = 0; j < c->spec.keys; j++) {
            double logit = 0;
            for (int i = 0; i < t->d; i++)
                logit += (double)t->q[r * t->q_stride + i] * t->k[j * t->k_stride + i];
            logit *= t->scale;
            second = fmax(second, fmin(logit, best));
            winner = logit > best ? j : winner;
            best = fmax(best, logit);
        }
        double doubt = 2 * unit_roundoff * (sqrt(t->d) + 4) * facts_of(c, r).logit + 127;
        if (best - second <= doubt)
            continue;
        ++*rows_won;
        for (int i = 0; i < t->dv; i++)
            CHECK(tile_answer(c, r)[i] == t->v[winner * t->v_stride + i],
                  "%s: row %d column %d is not v of key %d", tile_describe(c, kernels->isa), r, i,
                  winner);
    }
}

static void test_enormous_logits(void)
{
    for (int i = 0; i < KEY_COUNTS; i++) {
        tile_case c;
        tile_open(&c, &(tile_spec){.rows = 49,
                                   .keys = key_counts[i],
                                   .d = 64,
                                   .dv = 5,
                                   .gain = 1e4F,
                                   .seed = 50001 + (uint64_t)i});
        for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k)) {
            int rows_won = 0;
            check_winners(&c, k, &rows_won);
            CHECK(rows_won > 40, "%s: only %d rows have a clear winner", tile_describe(&c, k->isa),
                  rows_won);
        }
        tile_close(&c);
    }
}

static void fill(float *data, int rows, int columns, ptrdiff_t stride, float value)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < columns; i++)
            data[r * stride + i] = value;
}

/* Dot products beyond float32, upwards and downwards: never a wrong finite answer. */
static void test_overflow_shows(void)
{
    static const float signs[] = {1, -1};
    for (int s = 0; s < 2; s++) {
        tile_case c;
        tile_open(&c, &(tile_spec){.rows = 25, .keys = 193, .d = 5, .dv = 5, .gain = 1, .seed = 7});
        fill(c.q, 25, 5, c.tile.q_stride, 3e19F);
        fill(c.k, 193, 5, c.tile.k_stride, 3e19F * signs[s]);
        for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k)) {
            tile_run(&c, k, workspace_of(&c, k));
            for (int r = 0; r < 25; r++)
                for (int i = 0; i < 5; i++)
                    CHECK(!isfinite(tile_answer(&c, r)[i]), "%s sign %g: row %d column %d is %g",
                          tile_describe(&c, k->isa), signs[s], r, i, tile_answer(&c, r)[i]);
        }
        tile_close(&c);
    }
}

/* A product whose partial sums pass -FLT_MAX is -infinity in float32 though its true value may be
 * finite, even the largest: then the row must not quietly do without that key. */
static void test_overflow_on_the_way_shows(void)
{
    tile_case c;
    tile_open(&c, &(tile_spec){.rows = 25, .keys = 193, .d = 2, .dv = 3, .gain = 1, .seed = 7});
    fill(c.q, 25, 2, c.tile.q_stride, 1e20F);
    fill(c.k, 193, 2, c.tile.k_stride, 0);
    c.k[100 * c.tile.k_stride] = -4e20F;
    c.k[100 * c.tile.k_stride + 1] = 4.1e20F;
    for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k)) {
        tile_run(&c, k, workspace_of(&c, k));
        for (int r = 0; r < 25; r++)
            CHECK(!isfinite(tile_answer(&c, r)[0]), "%s: row %d is %g", tile_describe(&c, k->isa),
                  r, tile_answer(&c, r)[0]);
    }
    tile_close(&c);
}

/* A query of NaN makes its own row NaN and leaves every other row's bits alone. */
static void check_nan_row(tile_case *c, const attn_kernels *kernels)
{
    const int poisoned = 11;
    tile_run(c, kernels, workspace_of(c, kernels));
    float *before = copy_answer(c);
    float kept = c->q[poisoned * c->tile.q_stride];
    c->q[poisoned * c->tile.q_stride] = NAN;
    tile_run(c, kernels, workspace_of(c, kernels));
    c->q[poisoned * c->tile.q_stride] = kept;
    for (int r = 0; r < c->spec.rows; r++)
        for (int i = 0; i < c->spec.dv; i++) {
            float now = tile_answer(c, r)[i];
            CHECK(r == poisoned ? isnan(now)
                                : memcmp(&now, &before[r * c->spec.dv + i], sizeof now) == 0,
                  "%s: row %d column %d is %g", tile_describe(c, kernels->isa), r, i, now);
        }
    free(before);
}

static void test_nan_stays_in_its_row(void)
{
    tile_case c;
    tile_open(&c, &(tile_spec){.rows = 49, .keys = 193, .d = 9, .dv = 7, .gain = 1, .seed = 8});
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
        check_nan_row(&c, k);
    tile_close(&c);
}

/* With one visible key the answer is its v, bit for bit. */
static void check_single_key(tile_case *c, const attn_kernels *kernels, int key)
{
    tile_run(c, kernels, workspace_of(c, kernels));
    for (int r = 0; r < c->spec.rows; r++)
        CHECK(memcmp(tile_answer(c, r), c->v + key * c->tile.v_stride,
                     (size_t)c->spec.dv * sizeof(float)) == 0,
              "%s: row %d is not v of key %d, bit for bit", tile_describe(c, kernels->isa), r, key);
}

static void test_single_key(void)
{
    static const float special[] = {-0.0F,       0.0F,           FLT_TRUE_MIN, -FLT_TRUE_MIN,
                                    FLT_MIN / 3, FLT_MAX,        1.0F,         -FLT_MAX,
                                    FLT_MIN,     0x1.fffffep-1F, -0x1p-149F};
    const int columns = sizeof special / sizeof *special;
    for (int key = 0; key < 400; key += 57) {
        tile_case c;
        tile_open(&c, &(tile_spec){.rows = 25,
                                   .keys = key + 1,
                                   .d = 17,
                                   .dv = columns,
                                   .mask = TILE_VISIBLE,
                                   .gain = 30,
                                   .seed = 60001 + (uint64_t)key});
        memset(c.key_mask, 0, (size_t)key);
        memcpy(c.v + key * c.tile.v_stride, special, sizeof special);
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
            check_single_key(&c, k, key);
        tile_close(&c);
    }
}

/* Equal values: whatever the weights, their average is the value, up to the sums' rounding. */
static void test_constant_values(void)
{
    static const float values[] = {1, -3e-30F, 7.77e33F};
    for (size_t n = 0; n < sizeof values / sizeof *values; n++) {
        tile_case c;
        tile_open(&c, &(tile_spec){.rows = 49,
                                   .keys = 1000,
                                   .d = 33,
                                   .dv = 17,
                                   .mask = TILE_ALTERNATE,
                                   .gain = 3,
                                   .seed = 70001 + n});
        fill(c.v, 1000, 17, c.tile.v_stride, values[n]);
        double bound = fabs((double)values[n]) * sums_tolerance(500);
        for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k)) {
            tile_run(&c, k, workspace_of(&c, k));
            for (int r = 0; r < 49; r++)
                for (int i = 0; i < 17; i++)
                    CHECK(fabs((double)tile_answer(&c, r)[i] - values[n]) <= bound,
                          "%s: row %d column %d is %.9g, expected %.9g within %.3g",
                          tile_describe(&c, k->isa), r, i, tile_answer(&c, r)[i], values[n], bound);
        }
        tile_close(&c);
    }
}

/* One byte less than promised is refused, before anything is written. */
static void check_refusal(tile_case *c, const attn_kernels *kernels)
{
    size_t bytes = workspace_of(c, kernels);
    tile_result ran = tile_run(c, kernels, 0);
    float *before = copy_answer(c);
    CHECK(ran.status == ATTN_NO_MEMORY && !ran.strayed, "%s with no workspace: %s",
          tile_describe(c, kernels->isa), attn_status_name(ran.status));
    ran = tile_run(c, kernels, bytes - 1);
    CHECK(ran.status == ATTN_NO_MEMORY && !ran.strayed, "%s with %zu of %zu bytes: %s",
          tile_describe(c, kernels->isa), bytes - 1, bytes, attn_status_name(ran.status));
    CHECK(ran.scores == 0, "%s counted scores", tile_describe(c, kernels->isa));
    for (int r = 0; r < c->spec.rows; r++)
        CHECK(memcmp(before + r * c->spec.dv, tile_answer(c, r),
                     (size_t)c->spec.dv * sizeof *before) == 0,
              "%s: row %d was written", tile_describe(c, kernels->isa), r);
    free(before);
}

static void test_small_workspace(void)
{
    for (uint64_t seed = 1; seed <= 64; seed++) {
        tile_case c;
        tile_open(&c, &(tile_spec){.rows = row_counts[seed % ROW_COUNTS],
                                   .keys = 8,
                                   .d = column_counts[seed % COLUMN_COUNTS],
                                   .dv = column_counts[seed / 4 % COLUMN_COUNTS],
                                   .mask = seed % 2 ? TILE_UNMASKED : TILE_ALTERNATE,
                                   .gain = 1,
                                   .seed = seed});
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
            check_refusal(&c, k);
        tile_close(&c);
    }
}

/* Rows of e, positions and columns; e's rows and x's lie `gap` floats further apart than needed. */
typedef struct shorten_spec {
    int rows, count, columns[2], of_count, gap;
} shorten_spec;

static void run_shorten(const attn_kernels *kernels, const shorten_spec *s, const float *e,
                        float *const x[2], float *out[2])
{
    int columns = s->columns[0] + (s->of_count > 1 ? s->columns[1] : 0);
    size_t bytes = kernels->shorten_bytes(columns);
    void *memory = aligned_alloc(ATTN_ALIGN, attn_arena_round(bytes) + ATTN_ALIGN);
    attn_arena arena;
    attn_arena_init(&arena, memory, bytes);
    attn_shortening work = {.e = e,
                            .stride = s->count + s->gap,
                            .rows = s->rows,
                            .count = s->count,
                            .of_count = s->of_count};
    for (int i = 0; i < s->of_count; i++) {
        work.of[i] = (attn_shortened){
            .x = x[i], .stride = s->columns[i] + s->gap, .columns = s->columns[i], .out = out[i]};
        for (int at = 0; at < s->rows * s->columns[i]; at++)
            out[i][at] = 1;
    }
    attn_status status = kernels->shorten(&work, &arena);
    CHECK(status == ATTN_OK && arena.used == 0 && arena.peak <= bytes,
          "%s rows %d count %d: status %d, used %zu, peak %zu of %zu", attn_isa_name(kernels->isa),
          s->rows, s->count, (int)status, arena.used, arena.peak, bytes);
    free(memory);
}

/* The sums of `count` products of standard normal factors stay below 8 deviations, sqrt(count)
 * each, and each of count + 2 roundings is at most half a unit of that. */
static void check_shorten(const attn_kernels *kernels, const shorten_spec *s, test_random *random)
{
    size_t e_floats = (size_t)s->rows * (size_t)(s->count + s->gap);
    float *e = malloc(e_floats * sizeof *e), *x[2], *right[2], *out[2];
    random_fill(random, e, e_floats, 1);
    for (int i = 0; i < 2; i++) {
        size_t x_floats = (size_t)s->count * (size_t)(s->columns[i] + s->gap);
        size_t out_bytes = (size_t)(s->rows * s->columns[i]) * sizeof(float);
        x[i] = malloc(x_floats * sizeof **x);
        right[i] = malloc(out_bytes);
        out[i] = malloc(out_bytes);
        random_fill(random, x[i], x_floats, 1);
    }
    run_shorten(&attn_kernels_scalar, s, e, x, right);
    run_shorten(kernels, s, e, x, out);
    double bound = unit_roundoff * (s->count + 2) * (1 + 8 * sqrt((double)s->count));
    for (int i = 0; i < s->of_count; i++)
        for (int at = 0; at < s->rows * s->columns[i]; at++) {
            double error = fabs((double)out[i][at] - right[i][at]);
            CHECK(error <= bound, "%s rows %d count %d columns %d: [%d] is off by %g > %g",
                  attn_isa_name(kernels->isa), s->rows, s->count, s->columns[i], at, error, bound);
            if (!(error <= bound))
                break;
        }
    free(e);
    for (int i = 0; i < 2; i++) {
        free(x[i]);
        free(right[i]);
        free(out[i]);
    }
}

static void test_shorten(void)
{
    test_random random = {7};
    for (int i = 0; i < 3 * KEY_COUNTS; i++) {
        shorten_spec spec = {
            .rows = row_counts[i % ROW_COUNTS],
            .count = key_counts[i % KEY_COUNTS],
            .columns = {column_counts[i * 5 % COLUMN_COUNTS], column_counts[i * 7 % COLUMN_COUNTS]},
            .of_count = 1 + i % 2,
            .gap = i % 3};
        for (const attn_kernels *k = first_overlay(); k; k = kernels_after(k))
            check_shorten(k, &spec, &random);
    }
}

static void test_tables(void)
{
    CHECK(attn_kernels_find(ATTN_ISA_SCALAR) == &attn_kernels_scalar, "scalar is always there");
    CHECK(attn_kernels_find((attn_isa)99) == NULL, "no such instruction set");
    for (int isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++) {
        const attn_kernels *kernels = attn_kernels_find((attn_isa)isa);
        if (!kernels)
            printf("SKIP %s: this CPU lacks it\n", attn_isa_name((attn_isa)isa));
        else
            CHECK(kernels->isa == (attn_isa)isa && kernels->panel_rows >= 1, "table of %s",
                  attn_isa_name((attn_isa)isa));
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"tables", test_tables},
        {"rows and keys", test_rows_and_keys},
        {"columns", test_columns},
        {"bands and masks", test_bands_and_masks},
        {"long holes", test_long_holes},
        {"weights", test_weights},
        {"large logits", test_large_logits},
        {"enormous logits", test_enormous_logits},
        {"overflow shows", test_overflow_shows},
        {"overflow on the way shows", test_overflow_on_the_way_shows},
        {"NaN stays in its row", test_nan_stays_in_its_row},
        {"single key", test_single_key},
        {"constant values", test_constant_values},
        {"small workspace", test_small_workspace},
        {"shortening", test_shorten},
        {NULL, NULL},
    };
    return test_main("kernels", cases);
}
