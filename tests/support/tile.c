#include "tests/support/tile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands around the answer; no kernel computes it. */
static const float guard = -1.2345e33F;

/* (rows, columns) with rows `stride` apart, ending with the allocation: the last row has no padding
 * behind it, so that a sanitizer sees the first float read too far. */
static float *matrix(test_random *random, int rows, int columns, ptrdiff_t stride, float gain)
{
    size_t count = (size_t)(rows - 1) * (size_t)stride + (size_t)columns;
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = NAN;
    for (int r = 0; r < rows; r++)
        random_fill(random, data + r * stride, (size_t)columns, gain);
    return data;
}

static uint8_t mask_of(tile_mask kind, int j, int keys, test_random *random)
{
    static const uint8_t visible[] = {1, 2, 128, 255}; /* anything but 0 */
    bool see = true;
    switch (kind) {
    case TILE_ALTERNATE:
        see = j % 2 == 1;
        break;
    case TILE_RUNS:
        see = j / 210 % 2 == 0 && j % 210 != 209;
        break;
    case TILE_SPARSE:
        see = random_int(random, 0, 39) == 0;
        break;
    case TILE_HIDDEN:
        see = false;
        break;
    case TILE_HOLE:
        see = j < 3 || j >= keys - 3;
        break;
    default:
        break;
    }
    return see ? visible[random_int(random, 0, 3)] : 0;
}

/* Keys [begin, end) without edges. */
static attn_span run_of_keys(int64_t begin, int64_t end)
{
    return (attn_span){.begin = begin,
                       .step = 1,
                       .count = end - begin,
                       .first = -ATTN_NO_EDGE,
                       .last = ATTN_NO_EDGE};
}

static void choose_spans(tile_case *c, test_random *random)
{
    const tile_spec *s = &c->spec;
    attn_span *span = c->spans;
    c->tile.spans = span;
    c->tile.span_count = 1;
    span[0] = run_of_keys(0, s->keys);
    int64_t diagonal = s->keys - s->rows;
    switch (s->band) {
    case TILE_CAUSAL:
        span[0].last = diagonal;
        break;
    case TILE_WINDOW:
        diagonal = random_int(random, -s->rows, s->keys);
        span[0].first = diagonal - random_int(random, 0, 200);
        span[0].last = diagonal + random_int(random, 0, 200);
        break;
    case TILE_LATE:
        span[0].first = s->keys > 192 ? 192 - s->rows / 2 : s->keys / 2;
        break;
    case TILE_PIECES:
        c->tile.span_count = 3;
        span[0] = run_of_keys(0, s->keys / 4);
        span[1] = run_of_keys(s->keys / 3, s->keys / 2);
        span[2] = run_of_keys(s->keys / 2 + s->keys / 7, s->keys);
        span[2].first = 0;
        span[2].last = s->keys / 5;
        break;
    case TILE_STRIDED:
        span[0].begin = s->keys > 2 ? 2 : 0;
        span[0].step = 3;
        span[0].count = (s->keys - span[0].begin + 2) / 3;
        span[0].last = span[0].count / 2;
        break;
    default:
        break;
    }
}

/* NaN over every key that no row may see. */
static void spoil_hidden(tile_case *c)
{
    for (int j = 0; j < c->spec.keys; j++) {
        bool seen = false;
        for (int r = 0; r < c->spec.rows && !seen; r++)
            seen = tile_sees(c, r, j);
        for (int i = 0; i < c->spec.d && !seen; i++)
            c->k[j * c->tile.k_stride + i] = NAN;
        for (int i = 0; i < c->spec.dv && !seen; i++)
            c->v[j * c->tile.v_stride + i] = NAN;
    }
}

void tile_open(tile_case *c, const tile_spec *spec)
{
    test_random random = {spec->seed};
    *c = (tile_case){.spec = *spec};
    attn_tile *t = &c->tile;
    *t = (attn_tile){.rows = spec->rows,
                     .d = spec->d,
                     .dv = spec->dv,
                     .scale = (float)(1 / sqrt(spec->d)),
                     .q_stride = spec->d + random_int(&random, 0, 5),
                     .k_stride = spec->d + random_int(&random, 0, 5),
                     .v_stride = spec->dv + random_int(&random, 0, 5),
                     .out_stride = spec->dv + random_int(&random, 0, 5)};
    t->q = c->q = matrix(&random, spec->rows, spec->d, t->q_stride, spec->gain);
    t->k = c->k = matrix(&random, spec->keys, spec->d, t->k_stride, spec->gain);
    t->v = c->v = matrix(&random, spec->keys, spec->dv, t->v_stride, 1);
    /* A row of guards above and one below. */
    c->out = malloc((size_t)(spec->rows + 2) * (size_t)t->out_stride * sizeof *c->out);
    t->out = c->out + t->out_stride;
    choose_spans(c, &random);
    if (spec->mask != TILE_UNMASKED) {
        t->key_mask = c->key_mask = malloc((size_t)spec->keys);
        for (int j = 0; j < spec->keys; j++)
            c->key_mask[j] = mask_of(spec->mask, j, spec->keys, &random);
    }
    spoil_hidden(c);
}

void tile_close(tile_case *c)
{
    free(c->q);
    free(c->k);
    free(c->v);
    free(c->out);
    free(c->key_mask);
}

bool tile_sees(const tile_case *c, int r, int j)
{
    if (c->key_mask && !c->key_mask[j])
        return false;
    for (int s = 0; s < c->tile.span_count; s++) {
        const attn_span *span = &c->spans[s];
        int64_t ordinal = (j - span->begin) / span->step;
        bool in_span =
            j >= span->begin && ordinal * span->step == j - span->begin && ordinal < span->count;
        if (in_span && ordinal >= span->first + r && ordinal <= span->last + r)
            return true;
    }
    return false;
}

static bool guards_stand(const tile_case *c)
{
    const attn_tile *t = &c->tile;
    for (int r = -1; r <= t->rows; r++)
        for (ptrdiff_t i = r < 0 || r == t->rows ? 0 : t->dv; i < t->out_stride; i++)
            if (memcmp(&t->out[r * t->out_stride + i], &guard, sizeof guard) != 0)
                return false;
    return true;
}

tile_result tile_run(tile_case *c, const attn_kernels *kernels, size_t bytes)
{
    enum {
        BEHIND = 256,
        FILL = 0xA5
    };
    for (ptrdiff_t i = 0; i < (c->tile.rows + 2) * c->tile.out_stride; i++)
        c->out[i] = guard;
    unsigned char *memory;
    if (posix_memalign((void **)&memory, ATTN_ALIGN, bytes + BEHIND) != 0)
        return (tile_result){.status = ATTN_NO_MEMORY};
    memset(memory, FILL, bytes + BEHIND);
    attn_arena arena;
    attn_arena_init(&arena, memory, bytes);
    tile_result result = {0};
    result.status = kernels->attend(&c->tile, &arena, &result.scores);
    result.peak_bytes = arena.peak;
    result.strayed = !guards_stand(c);
    for (size_t i = 0; i < BEHIND; i++)
        result.strayed |= memory[bytes + i] != FILL;
    free(memory);
    return result;
}

const float *tile_answer(const tile_case *c, int r)
{
    return c->tile.out + r * c->tile.out_stride;
}

const char *tile_describe(const tile_case *c, attn_isa isa)
{
    static const char *const bands[] = {"full", "causal", "window", "late", "pieces", "strided"};
    static const char *const masks[] = {"unmasked", "visible", "alternate", "runs",
                                        "sparse",   "hidden",  "hole"};
    static char text[200];
    const tile_spec *s = &c->spec;
    snprintf(text, sizeof text, "%s rows %d keys %d d %d dv %d %s %s gain %g seed %llu",
             attn_isa_name(isa), s->rows, s->keys, s->d, s->dv, bands[s->band], masks[s->mask],
             s->gain, (unsigned long long)s->seed);
    return text;
}
