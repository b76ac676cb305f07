/* Mamba's convolution and scan on every instruction set: against a plain loop in double, cut into
 * chunks and ranges, masked, and in place. */
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

/* A sequence from its beginning: history and state are 0. */
static void open_beginning(scan_case *c, scan_mask mask)
{
    const scan_spec spec = {.count = 100,
                            .channels = 21,
                            .states = 16,
                            .width = 4,
                            .euler = true,
                            .biased = true,
                            .step = -2,
                            .mask = mask,
                            .seed = 13};
    scan_open(c, &spec);
    memset(c->conv.history, 0, scan_history_floats(c) * sizeof(float));
    memset(c->scan.h, 0, scan_state_floats(c) * sizeof(float));
}

/* The case from position t on, without a mask. */
static void begin_at(scan_case *c, ptrdiff_t t)
{
    c->conv.x += t * c->conv.x_stride;
    c->conv.out += t * c->conv.out_stride;
    c->scan.x += t * c->scan.x_stride;
    c->scan.dt += t * c->scan.dt_stride;
    c->scan.b += t * c->scan.b_stride;
    c->scan.c += t * c->scan.c_stride;
    c->scan.z += t * c->scan.z_stride;
    c->scan.y += t * c->scan.y_stride;
    c->spec.count -= (int)t;
    c->conv.count = c->scan.count = c->spec.count;
    c->mask = NULL;
}

/* Rows [0, count) of an answer are 0. */
static void check_zeros(const scan_case *c, attn_isa isa, const float *out, ptrdiff_t stride,
                        ptrdiff_t count, const char *what)
{
    for (ptrdiff_t t = 0; t < count; t++)
        for (int i = 0; i < c->spec.channels; i++)
            CHECK(out[t * stride + i] == 0, "%s: %s of hidden position %td, channel %d is %g",
                  scan_describe(c, isa), what, t, i, out[t * stride + i]);
}

/* Padding on the left answers 0 and is as if it were not there: the same bits, the same state, and
 * so the same continuation. */
static void test_left_padding(void)
{
    for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
        scan_case padded, bare;
        ptrdiff_t hidden = 0;
        open_beginning(&padded, SCAN_LEFT);
        open_beginning(&bare, SCAN_LEFT);
        while (!scan_sees(&bare, hidden))
            hidden++;
        begin_at(&bare, hidden);
        scan_run(&padded, k->scan, 40, WHOLE);
        scan_run(&bare, k->scan, WHOLE, WHOLE);
        check_zeros(&padded, k->isa, padded.conv.out, padded.conv.out_stride, hidden, "conv");
        check_zeros(&padded, k->isa, padded.scan.y, padded.scan.y_stride, hidden, "scan");
        begin_at(&padded, hidden);
        check_same(&padded, &bare, k->isa, "when it is padded");
        scan_close(&padded);
        scan_close(&bare);
    }
}

/* Rows of (count, channels) that the mask hides become 0. */
static void multiply(const scan_case *c, const float *rows, ptrdiff_t stride)
{
    float *to = (float *)rows;
    for (ptrdiff_t t = 0; t < c->spec.count; t++)
        if (!scan_sees(c, t))
            memset(to + t * stride, 0, (size_t)c->spec.channels * sizeof *to);
}

/* A mask, wherever it hides what, multiplies before and after the convolution: the same bits, the
 * same history, and nothing of the NaN that is hidden. */
static void test_mask_multiplies(void)
{
    for (int mask = SCAN_VISIBLE; mask < SCAN_MASKS; mask++)
        for (const attn_kernels *k = kernels_after(NULL); k; k = kernels_after(k)) {
            scan_case masked, multiplied;
            open_beginning(&masked, (scan_mask)mask);
            open_beginning(&multiplied, (scan_mask)mask);
            multiply(&masked, multiplied.conv.x, multiplied.conv.x_stride);
            multiplied.mask = NULL;
            scan_run(&masked, k->scan, 40, WHOLE);
            scan_run(&multiplied, k->scan, WHOLE, WHOLE);
            multiply(&masked, multiplied.conv.out, multiplied.conv.out_stride);
            check_same(&masked, &multiplied, k->isa, "from multiplying by the mask");
            scan_close(&masked);
            scan_close(&multiplied);
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
        {"lengths", test_lengths},
        {"shapes", test_shapes},
        {"pieces", test_pieces},
        {"left padding", test_left_padding},
        {"a mask multiplies", test_mask_multiplies},
        {"in place", test_in_place},
        {NULL, NULL},
    };
    return test_main("scan", cases);
}
