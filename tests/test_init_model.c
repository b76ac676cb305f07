/* The tensors of an untrained model: what is listed, and that the numbers follow from seed, tensor
 * and position alone. */
#include "attn/untrained.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVERYTHING = ATTN_PART_ATTENTION | ATTN_PART_PROJECTION | ATTN_PART_MAMBA
};

static attn_untrained_spec layer_of(unsigned parts)
{
    return (attn_untrained_spec){.hidden = 24,
                                 .heads = 6,
                                 .kv_heads = 2,
                                 .seq_len = 40,
                                 .k = 5,
                                 .seed = 3,
                                 .layers = 1,
                                 .mixers = 1,
                                 .parts = {parts}};
}

static attn_untrained *open_spec(const attn_untrained_spec *spec)
{
    attn_error error = {0};
    attn_untrained *u = attn_untrained_open(spec, &error);
    CHECK(u != NULL, "%s", error.message);
    return u;
}

static int find(const attn_untrained *u, const char *name)
{
    for (int i = 0; i < attn_untrained_count(u); i++)
        if (strcmp(attn_untrained_tensors(u)[i].name, name) == 0)
            return i;
    CHECK(0, "there is no %s", name);
    return 0;
}

/* The whole tensor, malloc'ed: as stored, or as float32. */
static unsigned char *stored_of(const attn_untrained *u, int index)
{
    const attn_stored *tensor = &attn_untrained_tensors(u)[index];
    unsigned char *bytes = malloc(tensor->bytes);
    attn_untrained_fill(u, index, 0, tensor->count, bytes);
    return bytes;
}

static float *floats_of(const attn_untrained *u, const char *name)
{
    int index = find(u, name);
    const attn_stored *tensor = &attn_untrained_tensors(u)[index];
    unsigned char *bytes = stored_of(u, index);
    float *floats = malloc(tensor->count * sizeof *floats);
    attn_dtype_to_float(tensor->dtype, bytes, tensor->count, floats);
    free(bytes);
    return floats;
}

static bool same_tensor(const attn_untrained *u, const char *name, const attn_untrained *v,
                        const char *other_name)
{
    int i = find(u, name), j = find(v, other_name);
    size_t bytes = attn_untrained_tensors(u)[i].bytes;
    unsigned char *left = stored_of(u, i), *right = stored_of(v, j);
    bool same = bytes == attn_untrained_tensors(v)[j].bytes && memcmp(left, right, bytes) == 0;
    free(left);
    free(right);
    return same;
}

typedef struct expected {
    const char *name;
    attn_dtype dtype;
    int rank;
    int64_t dim[3];
} expected;

static void check_list(const attn_untrained_spec *spec, const expected *list, int count)
{
    attn_untrained *u = open_spec(spec);
    size_t bytes = 0;
    CHECK(attn_untrained_count(u) == count, "%d tensors, expected %d", attn_untrained_count(u),
          count);
    for (int i = 0; i < count && i < attn_untrained_count(u); i++) {
        const attn_stored *t = &attn_untrained_tensors(u)[i];
        CHECK(strcmp(t->name, list[i].name) == 0, "tensor %d is %s, expected %s", i, t->name,
              list[i].name);
        CHECK(t->dtype == list[i].dtype && t->rank == list[i].rank, "%s: type %d, rank %d", t->name,
              t->dtype, t->rank);
        size_t elements = 1;
        for (int axis = 0; axis < list[i].rank; axis++) {
            CHECK(t->dim[axis] == list[i].dim[axis], "%s: dim %d is %lld, expected %lld", t->name,
                  axis, (long long)t->dim[axis], (long long)list[i].dim[axis]);
            elements *= (size_t)list[i].dim[axis];
        }
        CHECK(t->count == elements, "%s: %zu elements, expected %zu", t->name, t->count, elements);
        bytes += elements * attn_dtype_bytes(list[i].dtype);
    }
    CHECK(attn_untrained_bytes(u) == bytes, "%zu bytes, expected %zu", attn_untrained_bytes(u),
          bytes);
    attn_untrained_close(u);
}

/* hidden 24, 6 heads of 4 over 2; inner 48, R = ceil(24 / 16) = 2, N 16, K 4 */
static void test_layer(void)
{
    static const expected list[] = {
        {"attn.q_proj.weight", ATTN_FP32, 2, {24, 24}},
        {"attn.k_proj.weight", ATTN_FP32, 2, {8, 24}},
        {"attn.v_proj.weight", ATTN_FP32, 2, {8, 24}},
        {"attn.out_proj.weight", ATTN_FP32, 2, {24, 24}},
        {"attn.E", ATTN_BF16, 2, {40, 5}},
        {"mamba.in_proj.weight", ATTN_FP32, 2, {96, 24}},
        {"mamba.conv1d.weight", ATTN_FP32, 3, {48, 1, 4}},
        {"mamba.conv1d.bias", ATTN_FP32, 1, {48}},
        {"mamba.x_proj.weight", ATTN_FP32, 2, {34, 48}},
        {"mamba.dt_proj.weight", ATTN_FP32, 2, {48, 2}},
        {"mamba.dt_proj.bias", ATTN_FP32, 1, {48}},
        {"mamba.A_log", ATTN_FP32, 2, {48, 16}},
        {"mamba.D", ATTN_FP32, 1, {48}},
        {"mamba.out_proj.weight", ATTN_FP32, 2, {24, 48}},
    };
    attn_untrained_spec spec = layer_of(EVERYTHING);
    check_list(&spec, list, sizeof list / sizeof *list);
}

/* Without the other part there are no prefixes; the least sizes. */
static void test_smallest(void)
{
    static const expected attention[] = {{"q_proj.weight", ATTN_FP32, 2, {1, 1}},
                                         {"k_proj.weight", ATTN_FP32, 2, {1, 1}},
                                         {"v_proj.weight", ATTN_FP32, 2, {1, 1}},
                                         {"out_proj.weight", ATTN_FP32, 2, {1, 1}},
                                         {"E", ATTN_BF16, 2, {1, 1}}};
    attn_untrained_spec spec = {.hidden = 1,
                                .heads = 1,
                                .kv_heads = 1,
                                .seq_len = 1,
                                .k = 1,
                                .layers = 1,
                                .mixers = 1,
                                .parts = {ATTN_PART_ATTENTION | ATTN_PART_PROJECTION}};
    check_list(&spec, attention, sizeof attention / sizeof *attention);
}

/* Mixers in turn, a norm each, and one E for all where the first layer that reads it stands. */
static void test_stack(void)
{
    static const expected list[] = {
        {"layers.0.norm.weight", ATTN_FP32, 1, {24}},
        {"layers.0.q_proj.weight", ATTN_FP32, 2, {24, 24}},
        {"layers.0.k_proj.weight", ATTN_FP32, 2, {8, 24}},
        {"layers.0.v_proj.weight", ATTN_FP32, 2, {8, 24}},
        {"layers.0.out_proj.weight", ATTN_FP32, 2, {24, 24}},
        {"E", ATTN_BF16, 2, {40, 5}},
        {"layers.1.norm.weight", ATTN_FP32, 1, {24}},
        {"layers.1.in_proj.weight", ATTN_FP32, 2, {96, 24}},
        {"layers.1.conv1d.weight", ATTN_FP32, 3, {48, 1, 4}},
        {"layers.1.conv1d.bias", ATTN_FP32, 1, {48}},
        {"layers.1.x_proj.weight", ATTN_FP32, 2, {34, 48}},
        {"layers.1.dt_proj.weight", ATTN_FP32, 2, {48, 2}},
        {"layers.1.dt_proj.bias", ATTN_FP32, 1, {48}},
        {"layers.1.A_log", ATTN_FP32, 2, {48, 16}},
        {"layers.1.D", ATTN_FP32, 1, {48}},
        {"layers.1.out_proj.weight", ATTN_FP32, 2, {24, 48}},
        {"layers.2.norm.weight", ATTN_FP32, 1, {24}},
        {"layers.2.q_proj.weight", ATTN_FP32, 2, {24, 24}},
        {"layers.2.k_proj.weight", ATTN_FP32, 2, {8, 24}},
        {"layers.2.v_proj.weight", ATTN_FP32, 2, {8, 24}},
        {"layers.2.out_proj.weight", ATTN_FP32, 2, {24, 24}},
    };
    attn_untrained_spec spec = layer_of(ATTN_PART_ATTENTION | ATTN_PART_PROJECTION);
    spec.stack = true;
    spec.layers = 3;
    spec.mixers = 2;
    spec.parts[1] = ATTN_PART_MAMBA;
    check_list(&spec, list, sizeof list / sizeof *list);
}

static bool is_drawn(const char *name)
{
    return !strstr(name, "conv1d.bias") && !strstr(name, "A_log") && !strstr(name, ".D");
}

static void test_seed(void)
{
    attn_untrained_spec spec = layer_of(EVERYTHING);
    attn_untrained *first = open_spec(&spec), *again = open_spec(&spec);
    spec.seed = (uint64_t)1 << 53;
    attn_untrained *other = open_spec(&spec);
    for (int i = 0; i < attn_untrained_count(first); i++) {
        const char *name = attn_untrained_tensors(first)[i].name;
        CHECK(same_tensor(first, name, again, name), "%s: the same seed gave other bytes", name);
        CHECK(same_tensor(first, name, other, name) == !is_drawn(name),
              "%s: another seed gave %s bytes", name, is_drawn(name) ? "the same" : "other");
    }
    attn_untrained_close(first);
    attn_untrained_close(again);
    attn_untrained_close(other);
}

/* FNV-1a of everything drawn, for ever: the same flags are the same model on every machine. */
static void test_fixed_bytes(void)
{
    attn_untrained_spec spec = layer_of(EVERYTHING);
    attn_untrained *u = open_spec(&spec);
    uint64_t hash = 0xCBF29CE484222325U;
    for (int i = 0; i < attn_untrained_count(u); i++) {
        unsigned char *bytes = stored_of(u, i);
        for (size_t b = 0; b < attn_untrained_tensors(u)[i].bytes; b++)
            hash = (hash ^ bytes[b]) * 0x100000001B3U;
        free(bytes);
    }
    CHECK(hash == 0xC7C1224B6D506872U, "the bytes hash to %#llx", (unsigned long long)hash);
    attn_untrained_close(u);
}

/* Beside Mamba a projection has another name but the same numbers; no two tensors of a model have
 * the same. */
static void test_streams(void)
{
    attn_untrained_spec spec = layer_of(EVERYTHING), alone = layer_of(ATTN_PART_ATTENTION);
    attn_untrained *both = open_spec(&spec), *attention = open_spec(&alone);
    CHECK(same_tensor(both, "attn.k_proj.weight", attention, "k_proj.weight"),
          "k_proj changed with what stands beside it");
    CHECK(!same_tensor(both, "attn.k_proj.weight", both, "attn.v_proj.weight"), "k_proj is v_proj");
    alone.stack = true;
    alone.layers = 2;
    attn_untrained *stack = open_spec(&alone);
    CHECK(!same_tensor(stack, "layers.0.q_proj.weight", stack, "layers.1.q_proj.weight"),
          "two layers have the same q_proj");
    attn_untrained_close(both);
    attn_untrained_close(attention);
    attn_untrained_close(stack);
}

/* In pieces of every length a tensor is the same, and nothing is written behind a piece. */
static void test_pieces(void)
{
    attn_untrained_spec spec = layer_of(EVERYTHING);
    attn_untrained *u = open_spec(&spec);
    for (int i = 0; i < attn_untrained_count(u); i++) {
        const attn_stored *t = &attn_untrained_tensors(u)[i];
        size_t width = attn_dtype_bytes(t->dtype);
        unsigned char *whole = stored_of(u, i), *pieces = malloc(t->bytes + 1);
        for (size_t step = 1; step <= t->count; step = step * 3 + 1) {
            pieces[t->bytes] = 77;
            for (size_t first = 0; first < t->count; first += step) {
                size_t count = t->count - first < step ? t->count - first : step;
                attn_untrained_fill(u, i, first, count, pieces + first * width);
            }
            CHECK(memcmp(whole, pieces, t->bytes) == 0 && pieces[t->bytes] == 77,
                  "%s differs in pieces of %zu", t->name, step);
        }
        free(whole);
        free(pieces);
    }
    attn_untrained_close(u);
}

/* Of `count` normals of variance s^2 the mean deviates by s / sqrt(count), and the mean square by
 * s^2 sqrt(2 / count); five of each are allowed. Rounding to BF16 moves a value by 2^-9 of itself
 * and is unbiased. */
static void check_normal(const attn_untrained *u, const char *name, double variance)
{
    size_t count = attn_untrained_tensors(u)[find(u, name)].count;
    float *values = floats_of(u, name);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    double mean = sum / (double)count, relative = squares / (double)count / variance - 1;
    CHECK(fabs(mean) < 5 * sqrt(variance / (double)count), "%s: mean %g", name, mean);
    CHECK(fabs(relative) < 5 * sqrt(2 / (double)count), "%s: variance off by %g of it", name,
          relative);
    free(values);
}

static void test_moments(void)
{
    attn_untrained_spec spec = layer_of(EVERYTHING);
    spec.hidden = 192;
    spec.seq_len = 4096;
    spec.k = 32;
    attn_untrained *u = open_spec(&spec);
    check_normal(u, "attn.q_proj.weight", 1.0 / 192);
    check_normal(u, "attn.k_proj.weight", 1.0 / 192);
    check_normal(u, "attn.out_proj.weight", 1.0 / 192);
    check_normal(u, "attn.E", 1.0 / 32);
    check_normal(u, "mamba.in_proj.weight", 1.0 / 192);
    check_normal(u, "mamba.conv1d.weight", 1.0 / 4);
    check_normal(u, "mamba.x_proj.weight", 1.0 / 384);
    check_normal(u, "mamba.dt_proj.weight", 1.0 / 12);
    check_normal(u, "mamba.out_proj.weight", 1.0 / 384);
    attn_untrained_close(u);
}

/* softplus(bias) log-uniform over two decades: ln dt has mean ln 0.01 and variance (ln 100)^2 / 12.
 * float32 leaves 2^-24 of a bias of at most 6.9 in size, which is the relative error of dt. */
static void test_time_steps(void)
{
    enum {
        HIDDEN = 4096,
        COUNT = 2 * HIDDEN
    };
    attn_untrained_spec spec = layer_of(ATTN_PART_MAMBA);
    spec.hidden = HIDDEN;
    spec.heads = spec.kv_heads = 1;
    attn_untrained *u = open_spec(&spec);
    float *bias = floats_of(u, "dt_proj.bias");
    double sum = 0, least = 1, most = 0;
    for (int i = 0; i < COUNT; i++) {
        double dt = log1p(exp((double)bias[i]));
        sum += log(dt);
        least = fmin(least, dt);
        most = fmax(most, dt);
    }
    const double rounding = 1e-6, edge = 20.0 / COUNT; /* missed with probability e^-20 */
    CHECK(least >= 0.001 * (1 - rounding) && least < 0.001 * exp(edge * log(100)), "least dt %g",
          least);
    CHECK(most <= 0.1 * (1 + rounding) && most > 0.1 * exp(-edge * log(100)), "most dt %g", most);
    double off = fabs(sum / COUNT - log(0.01));
    CHECK(off < 5 * log(100) / sqrt(12.0 * COUNT), "mean of ln dt off by %g", off);
    free(bias);
    attn_untrained_close(u);
}

static void test_constants(void)
{
    attn_untrained_spec spec = layer_of(ATTN_PART_MAMBA);
    attn_untrained *u = open_spec(&spec);
    float *a_log = floats_of(u, "A_log"), *d = floats_of(u, "D"), *b = floats_of(u, "conv1d.bias");
    for (int i = 0; i < 48; i++) {
        CHECK(d[i] == 1 && b[i] == 0, "channel %d: D %g, bias %g", i, (double)d[i], (double)b[i]);
        for (int n = 0; n < 16; n++)
            CHECK(a_log[16 * i + n] == (float)log(n + 1), "A_log[%d][%d] is %a", i, n,
                  (double)a_log[16 * i + n]);
    }
    free(a_log);
    free(d);
    free(b);
    attn_untrained_close(u);
}

/* Sizes whose bytes cannot be counted are refused, not wrapped. */
static void test_too_large(void)
{
    attn_untrained_spec spec = layer_of(EVERYTHING);
    spec.seq_len = (int64_t)1 << 40;
    spec.k = (int64_t)1 << 30;
    attn_error error = {0};
    attn_untrained *u = attn_untrained_open(&spec, &error);
    CHECK(!u && error.status == ATTN_INVALID && strstr(error.message, "hidden size 24"), "%s",
          error.message);
    attn_untrained_close(u);
}

int main(void)
{
    static const test_case cases[] = {
        {"layer", test_layer},
        {"smallest", test_smallest},
        {"stack", test_stack},
        {"seed", test_seed},
        {"fixed bytes", test_fixed_bytes},
        {"streams", test_streams},
        {"pieces", test_pieces},
        {"moments", test_moments},
        {"time steps", test_time_steps},
        {"constants", test_constants},
        {"too large", test_too_large},
        {NULL, NULL},
    };
    return test_main("init_model", cases);
}
