/* Mamba's convolution and scan on every instruction set: against a plain loop in double, cut into
 * chunks and ranges, padded, and in place. */
#include "tests/support/attend.h"
#include "tests/support/scan.h"
#include "tests/support/suite.h"

#include <string.h>

enum {
    WHOLE = 1 << 20 /* a chunk, or a range, that nothing exceeds */
};

static const int lengths[] = {1, 7, 63, 64, 65, 127, 128, 129, 1000};
enum {
    LENGTHS = sizeof lengths / sizeof *lengths
};

static void check_spec(const scan_spec *spec)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        scan_case c;
        scan_open(&c, spec);
        scan_answer conv = scan_expect_conv(&c), scan = scan_expect(&c);
        scan_run(&c, k->scan, WHOLE, WHOLE);
        scan_check(&c, k->isa, "conv", c.conv.out, c.conv.out_stride, &conv);
        scan_check(&c, k->isa, "scan", c.scan.y, c.scan.y_stride, &scan);
        CHECK(!scan_strayed(&c), "%s wrote beside its answer", scan_describe(&c, k->isa));
        scan_answer_close(&conv);
        scan_answer_close(&scan);
        scan_close(&c);
    }
}

/* Decays near 0, in between, and near 1. */
static const struct {
    float step, decay;
} strengths[] = {{3, 4}, {0, 0}, {-6, -1}};

static void test_lengths(void)
{
    for (int i = 0; i < LENGTHS; i++)
        for (int s = 0; s < 3; s++)
            check_spec(&(scan_spec){.count = lengths[i],
                                    .channels = 19,
                                    .states = 16,
                                    .width = 4,
                                    .euler = true,
                                    .biased = true,
                                    .step = strengths[s].step,
                                    .decay = strengths[s].decay,
                                    .seed = (uint64_t)(i * 3 + s)});
}

static void test_shapes(void)
{
    static const int channels[] = {1, 7, 8, 9, 15, 16, 17, 33, 48}, states[] = {1, 2, 3, 5, 16, 23};
    uint64_t seed = 100;
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (size_t n = 0; n < sizeof states / sizeof *states; n++)
            for (int mask = 0; mask < SCAN_MASKS; mask++, seed++)
                check_spec(&(scan_spec){.count = 5 + (int)(seed % 71),
                                        .channels = channels[c],
                                        .states = states[n],
                                        .width = 1 + (int)(seed % ATTN_CONV_MOST_WIDTH),
                                        .euler = seed % 2 == 0,
                                        .biased = seed % 3 != 0,
                                        .step = -1,
                                        .mask = (scan_mask)mask,
                                        .seed = seed});
}

/* The same bits in all that two runs of one case leave. */
static void check_same(const scan_case *a, const scan_case *b, attn_isa isa, const char *what)
{
    const size_t row = (size_t)a->spec.channels * sizeof(float);
    for (ptrdiff_t t = 0; t < a->spec.count; t++) {
        CHECK(memcmp(a->conv.out + t * a->conv.out_stride, b->conv.out + t * b->conv.out_stride,
                     row) == 0,
              "%s: conv of position %td differs %s", scan_describe(a, isa), t, what);
        CHECK(memcmp(a->scan.y + t * a->scan.y_stride, b->scan.y + t * b->scan.y_stride, row) == 0,
              "%s: scan of position %td differs %s", scan_describe(a, isa), t, what);
    }
    CHECK(memcmp(a->conv.history, b->conv.history, scan_history_floats(a) * sizeof(float)) == 0,
          "%s: the history differs %s", scan_describe(a, isa), what);
    for (ptrdiff_t channel = 0; channel < a->spec.channels; channel++)
        for (int n = 0; n < a->spec.states; n++) {
            const ptrdiff_t at =
                (channel / ATTN_LANES * a->spec.states + n) * ATTN_LANES + channel % ATTN_LANES;
            CHECK(memcmp(&a->scan.h[at], &b->scan.h[at], sizeof(float)) == 0,
                  "%s: state %d of channel %td differs %s", scan_describe(a, isa), n, channel,
                  what);
        }
}

static void test_pieces(void)
{
    static const ptrdiff_t pieces[][2] = {{1, WHOLE}, {63, WHOLE}, {64, WHOLE}, {1000, WHOLE},
                                          {5, 16},    {WHOLE, 16}, {WHOLE, 32}, {33, 48}};
    for (int mask = 0; mask < SCAN_MASKS; mask++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k))
            for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
                const scan_spec spec = {.count = 1003,
                                        .channels = 59,
                                        .states = 7,
                                        .width = 4 + mask % 2,
                                        .euler = mask % 2 == 0,
                                        .biased = true,
                                        .step = -2,
                                        .mask = (scan_mask)mask,
                                        .seed = 7};
                scan_case whole, cut;
                scan_open(&whole, &spec);
                scan_open(&cut, &spec);
                scan_run(&whole, k->scan, WHOLE, WHOLE);
                scan_run(&cut, k->scan, pieces[i][0], pieces[i][1]);
                check_same(&whole, &cut, k->isa, "when it is cut");
                scan_close(&whole);
                scan_close(&cut);
            }
}

/* The rows of a matrix that are valid close ranks at its front. */
static void close_ranks(const scan_case *c, const float *matrix, ptrdiff_t stride,
                        ptrdiff_t columns)
{
    float *to = (float *)matrix;
    for (ptrdiff_t t = 0; t < c->spec.count; t++)
        if (scan_sees(c, t)) {
            memmove(to, matrix + t * stride, (size_t)columns * sizeof *to);
            to += stride;
        }
}

/* The case without its masked rows. */
static void cut_masked(scan_case *c)
{
    const ptrdiff_t channels = c->spec.channels, states = c->spec.states;
    close_ranks(c, c->conv.x, c->conv.x_stride, channels);
    close_ranks(c, c->conv.out, c->conv.out_stride, channels);
    close_ranks(c, c->scan.x, c->scan.x_stride, channels);
    close_ranks(c, c->scan.dt, c->scan.dt_stride, channels);
    close_ranks(c, c->scan.z, c->scan.z_stride, channels);
    close_ranks(c, c->scan.b, c->scan.b_stride, states);
    close_ranks(c, c->scan.c, c->scan.c_stride, states);
    close_ranks(c, c->scan.y, c->scan.y_stride, channels);
    int kept = 0;
    for (ptrdiff_t t = 0; t < c->spec.count; t++)
        kept += scan_sees(c, t);
    c->conv.count = c->scan.count = c->spec.count = kept;
    c->mask = NULL;
}

static void check_masked_rows(const scan_case *c, attn_isa isa)
{
    for (ptrdiff_t t = 0; t < c->spec.count; t++)
        for (int i = 0; i < c->spec.channels && !scan_sees(c, t); i++) {
            float x = c->conv.out[t * c->conv.out_stride + i];
            float y = c->scan.y[t * c->scan.y_stride + i];
            CHECK(x == 0 && y == 0, "%s: masked position %td is %g and %g", scan_describe(c, isa),
                  t, x, y);
        }
}

/* What is masked, wherever it stands, is as if it were not there: the same bits, the same state,
 * and so the same continuation. */
static void test_padding(void)
{
    for (int mask = SCAN_VISIBLE; mask < SCAN_HIDDEN; mask++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            const scan_spec spec = {.count = 100,
                                    .channels = 21,
                                    .states = 16,
                                    .width = 4,
                                    .euler = true,
                                    .biased = true,
                                    .step = -2,
                                    .mask = (scan_mask)mask,
                                    .seed = 13};
            scan_case padded, bare;
            scan_open(&padded, &spec);
            scan_open(&bare, &spec);
            cut_masked(&bare);
            scan_run(&padded, k->scan, 40, WHOLE);
            scan_run(&bare, k->scan, WHOLE, WHOLE);
            check_masked_rows(&padded, k->isa);
            cut_masked(&padded);
            check_same(&bare, &padded, k->isa, "when it is padded");
            scan_close(&padded);
            scan_close(&bare);
        }
}

/* The answer may take the place of an input. */
static void test_in_place(void)
{
    for (int over = 0; over < 3; over++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            const scan_spec spec = {.count = 70,
                                    .channels = 37,
                                    .states = 5,
                                    .width = 4,
                                    .euler = true,
                                    .biased = true,
                                    .mask = (scan_mask)(over * 2),
                                    .seed = 21};
            scan_case apart, inside;
            scan_open(&apart, &spec);
            scan_open(&inside, &spec);
            attn_scan *n = &inside.scan;
            const float *const places[] = {n->x, n->dt, n->z};
            const ptrdiff_t strides[] = {n->x_stride, n->dt_stride, n->z_stride};
            n->y = (float *)places[over];
            n->y_stride = strides[over];
            inside.conv.out = (float *)inside.conv.x;
            inside.conv.out_stride = inside.conv.x_stride;
            scan_run(&apart, k->scan, WHOLE, WHOLE);
            scan_run(&inside, k->scan, WHOLE, WHOLE);
            check_same(&apart, &inside, k->isa, "in place");
            scan_close(&apart);
            scan_close(&inside);
        }
}

int main(void)
{
    static const test_case cases[] = {
        {"lengths", test_lengths}, {"shapes", test_shapes},     {"pieces", test_pieces},
        {"padding", test_padding}, {"in place", test_in_place}, {NULL, NULL},
    };
    return test_main("scan", cases);
}
