/* Random directions: independent Gaussians, or such that are orthogonal in blocks of d (Choromanski
 * et al. 2021, section 3.4).
 *
 * Orthogonal ones are rows of a uniformly random orthogonal matrix made as Stewart does it (1980,
 * "The efficient generation of random orthogonal matrices"): the QR decomposition of a Gaussian
 * matrix is a product of Householder reflections, and reflections drawn independently have the same
 * distribution. With g_k the Gaussian row k of a block, t_k its columns from k on and H_k the
 * reflection that takes the axis e_k to t_k / |t_k| or its negative,
 *
 *   direction i = |g_i|  H_0 H_1 ... H_(i - 1)  t_i / |t_i|
 *
 * They are orthogonal: the unit t_i is so to the axis e_k of any k < i, which H_k takes to what
 * direction k begins as; the rest turns both alike. Their lengths, |g_i|, are chi(d) distributed
 * and independent of all t_k / |t_k|.
 *
 * So every direction is made on its own from the drawn rows before it, in any order and on any
 * worker, for 4/3 d^3 operations a block; Gram-Schmidt, run twice, takes 4 d^3 and waits for the
 * row before. Where a row's reflections are too many for one tile they are spread over several
 * phases. This file is compiled without contraction: the same seed, the same numbers. */
#include "mixers/directions.h"

#include "random.h"

#include <math.h>
#include <string.h>

enum {
    BASIS_STREAM = 2,
    MOST_TURNS = ATTN_DIRECTION_PHASES - 1,
    ROWS_A_TILE = 4,   /* as long as there may be more turns */
    TURN_COLUMNS = 16, /* that a reflection takes as long as, besides its own */
};
/* What a tile should last; and to cut tiles by, whatever was measured, about what drawing a number
 * costs and an operation of a reflection. */
#define TILE_NS 2e6
#define DRAW_NS 30.0
#define TURN_NS 0.1

/* Of a drawn row. */
typedef struct lengths {
    double tail, whole;
} lengths;

/* The shared workspace. */
typedef struct workspace {
    double *turned;   /* (features, d) unit directions on their way */
    lengths *lengths; /* (features) */
    float *drawn;     /* (features, d) */
} workspace;

static workspace workspace_at(const attn_mix_params *p, int64_t d, void *memory)
{
    workspace w = {.turned = memory};
    w.lengths = (lengths *)(void *)(w.turned + p->features * d);
    w.drawn = (float *)(void *)(w.lengths + p->features);
    return w;
}

size_t attn_directions_bytes(const attn_mix_params *p, int64_t d)
{
    size_t features = (size_t)p->features, numbers = features * (size_t)d;
    return p->orthogonal ? numbers * (sizeof(double) + sizeof(float)) + features * sizeof(lengths)
                         : 0;
}

/* Directions of a whole block. */
static int64_t block_rows(const attn_mix_params *p, int64_t d)
{
    return p->features < d ? p->features : d;
}

/* What the last direction of a block takes, at most. */
static double row_ns(const attn_mix_params *p, int64_t d)
{
    return 4 * (double)d * (double)block_rows(p, d) * TURN_NS;
}

static int turn_count(const attn_mix_params *p, int64_t d)
{
    double turns = ceil(ROWS_A_TILE * row_ns(p, d) / TILE_NS);
    return turns < MOST_TURNS ? (int)turns : MOST_TURNS;
}

static int64_t rows_a_tile(const attn_mix_params *p, double a_row_ns)
{
    double rows = floor(TILE_NS / a_row_ns);
    return rows < 1 ? 1 : rows < (double)p->features ? (int64_t)rows : p->features;
}

static int64_t drawn_rows(const attn_mix_params *p, int64_t d)
{
    return rows_a_tile(p, (double)d * DRAW_NS);
}

static int64_t turned_rows(const attn_mix_params *p, int64_t d)
{
    return rows_a_tile(p, row_ns(p, d) / turn_count(p, d));
}

/* Reflections [from, to) of a block are those of a turn; the last turn has the first ones. */
typedef struct turn {
    int64_t from, to;
    bool last;
} turn;

static turn turn_of(const attn_mix_params *p, int64_t d, int index)
{
    int64_t rows = block_rows(p, d), turns = turn_count(p, d), left = turns - index;
    return (turn){.from = rows * (left - 1) / turns, .to = rows * left / turns, .last = left == 1};
}

int attn_directions_phases(const attn_mix_params *p, int64_t d)
{
    return 1 + (p->orthogonal ? turn_count(p, d) : 0);
}

attn_phase attn_directions_phase(const attn_mix_params *p, int64_t d, int phase,
                                 const attn_rates *rates)
{
    double features = (double)p->features, columns = (double)d;
    double ns = features * columns * rates->draw_ns;
    int64_t rows = drawn_rows(p, d);
    if (phase > 0) {
        turn t = turn_of(p, d, phase - 1);
        double middle = (double)(t.from + t.to) / 2, block = (double)block_rows(p, d);
        /* Reflection k costs 4 (d - k) and turns all but the first k + 1 rows of a block. */
        double steps = (double)(t.to - t.from) * 4 * (columns - middle + TURN_COLUMNS) *
                       (block - middle) / block;
        rows = turned_rows(p, d);
        ns = features * (steps + 2 * columns) * rates->turn_ns;
    }
    int64_t tiles = (p->features + rows - 1) / rows;
    return (attn_phase){phase > 0 ? "turn" : "draw", tiles, ns / (double)tiles};
}

/* Eight sums at once, in an order of our own: one alone would wait for each addition. */
static double dot(const double *a, const float *b, int64_t count)
{
    double sums[8] = {0}, total = 0;
    int64_t whole = count - count % 8;
    for (int64_t c = 0; c < whole; c += 8)
        for (int i = 0; i < 8; i++)
            sums[i] += a[c + i] * b[c + i];
    for (int i = 0; i < 8; i++)
        total += sums[i];
    for (int64_t c = whole; c < count; c++)
        total += a[c] * b[c];
    return total;
}

static double square(const float *x, int64_t count)
{
    double sum = 0;
    for (int64_t c = 0; c < count; c++)
        sum += (double)x[c] * x[c];
    return sum;
}

static void draw_row(const attn_mix_params *p, int64_t d, int64_t row, float *to)
{
    for (int64_t c = 0; c < d; c++)
        to[c] = (float)attn_random_normal(p->seed, BASIS_STREAM, (uint64_t)(row * d + c));
}

static lengths measure(const float *row, int64_t d, int64_t index)
{
    double head = square(row, index), tail = square(row + index, d - index);
    return (lengths){.tail = sqrt(tail), .whole = sqrt(head + tail)};
}

/* x -= 2 v (v.x) / v.v with v = t + sign(t_0) |t| e_0, for which v.v = 2 |t| |v_0|: x goes to its
 * mirror image, and e_0 to t / |t| or its negative. `x` and `t` begin at the axis. */
static void reflect(double *x, const float *t, double length, int64_t count)
{
    double first = t[0] < 0 ? t[0] - length : t[0] + length;
    double product = first * x[0] + dot(x + 1, t + 1, count - 1);
    double share = product / (length * fabs(first));
    x[0] -= share * first;
    for (int64_t c = 1; c < count; c++)
        x[c] -= share * t[c];
}

/* A direction begins as the rest of its own row, made a unit vector. */
static void begin(const workspace *w, int64_t d, int64_t row)
{
    int64_t index = row % d;
    double *x = w->turned + row * d;
    const float *t = w->drawn + row * d;
    memset(x, 0, (size_t)index * sizeof *x);
    for (int64_t c = index; c < d; c++)
        x[c] = t[c] / w->lengths[row].tail;
}

static void turn_row(const attn_mix_params *p, int64_t d, const turn *t, int64_t row,
                     const workspace *w, float *omega)
{
    int64_t index = row % d, block = row - index, k = index < t->to ? index : t->to;
    double *x = w->turned + row * d;
    if (index >= t->from && index < t->to)
        begin(w, d, row);
    while (k-- > t->from)
        reflect(x + k, w->drawn + (block + k) * d + k, w->lengths[block + k].tail, d - k);
    double length = p->norm == ATTN_NORM_CHI ? w->lengths[row].whole : sqrt((double)d);
    for (int64_t c = 0; t->last && c < d; c++)
        omega[row * d + c] = (float)(length * x[c]);
}

static void run_draw(const attn_mix_params *p, int64_t d, int64_t from, int64_t to,
                     const workspace *w, float *omega)
{
    float *drawn = p->orthogonal ? w->drawn : omega;
    for (int64_t row = from; row < to; row++) {
        draw_row(p, d, row, drawn + row * d);
        if (p->orthogonal)
            w->lengths[row] = measure(drawn + row * d, d, row % d);
    }
}

void attn_directions_run(const attn_mix_params *p, int64_t d, int phase, int64_t tile, void *memory,
                         float *omega)
{
    const workspace w = p->orthogonal ? workspace_at(p, d, memory) : (workspace){0};
    int64_t rows = phase > 0 ? turned_rows(p, d) : drawn_rows(p, d), from = tile * rows;
    int64_t to = p->features - from < rows ? p->features : from + rows;
    if (phase == 0) {
        run_draw(p, d, from, to, &w, omega);
        return;
    }
    const turn t = turn_of(p, d, phase - 1);
    for (int64_t row = from; row < to; row++)
        turn_row(p, d, &t, row, &w, omega);
}
