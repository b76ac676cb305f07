/* Mamba's convolution and scan against float64 vectors of tests/vectors/make_scan_vectors.py, on
 * every instruction set. The bounds are those of tests/support/scan.h. */
#include "tests/support/attend.h"
#include "tests/support/scan.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `count` elements of `size` bytes in memory of their own, which the case owns; NULL when the file
 * is too short or the array is not `there`. */
static void *read_array(scan_case *c, FILE *file, bool there, size_t count, size_t size)
{
    if (!there)
        return NULL;
    void *data = malloc(count * size);
    if (!data)
        abort();
    c->owned[c->owned_count++] = data;
    return fread(data, size, count, file) == count ? data : NULL;
}

static void *zeros(scan_case *c, size_t floats)
{
    float *data = scan_own(c, floats);
    memset(data, 0, floats * sizeof *data);
    return data;
}

static bool read_head(FILE *file, scan_spec *spec, bool *masked)
{
    char line[128];
    int euler, biased, has_mask;
    if (!fgets(line, sizeof line, file) ||
        sscanf(line, "%d %d %d %d %d %d %d", &spec->count, &spec->channels, &spec->states,
               &spec->width, &euler, &biased, &has_mask) != 7)
        return false;
    spec->euler = euler != 0;
    spec->biased = biased != 0;
    *masked = has_mask != 0;
    return true;
}

/* The inputs, as they follow each other in the file. */
static void read_inputs(scan_case *c, FILE *file, bool masked)
{
    const scan_spec *s = &c->spec;
    const size_t channels = (size_t)s->channels, states = (size_t)s->states;
    const size_t rows = (size_t)s->count;
    attn_conv *v = &c->conv;
    attn_scan *n = &c->scan;
    v->x = read_array(c, file, true, rows * channels, sizeof(float));
    c->weight = read_array(c, file, true, channels * (size_t)s->width, sizeof(float));
    v->bias = read_array(c, file, s->biased, channels, sizeof(float));
    n->dt = read_array(c, file, true, rows * channels, sizeof(float));
    n->dt_bias = read_array(c, file, s->biased, channels, sizeof(float));
    n->b = read_array(c, file, true, rows * states, sizeof(float));
    n->c = read_array(c, file, true, rows * states, sizeof(float));
    c->a_log = read_array(c, file, true, channels * states, sizeof(float));
    n->skip = read_array(c, file, s->biased, channels, sizeof(float));
    n->z = read_array(c, file, s->biased, rows * channels, sizeof(float));
    c->mask = read_array(c, file, masked, rows, 1);
}

/* What the kernels need besides: prepared weights, empty state, room for the answers. The scan's x
 * is the file's convolution, rounded. */
static void complete(scan_case *c, const double *convolved)
{
    const scan_spec *s = &c->spec;
    const size_t elements = (size_t)s->count * (size_t)s->channels;
    attn_conv *v = &c->conv;
    attn_scan *n = &c->scan;
    float *taps = scan_own(c, (size_t)(s->channels * s->width));
    attn_conv_prepare(c->weight, s->channels, s->width, taps);
    v->taps = taps;
    v->history = zeros(c, scan_history_floats(c));
    v->out = scan_own(c, elements);
    float *a = scan_own(c, scan_state_floats(c));
    attn_scan_prepare(c->a_log, s->channels, s->states, a);
    n->a = a;
    n->h = zeros(c, scan_state_floats(c));
    n->y = scan_own(c, elements);
    float *x = scan_own(c, elements);
    for (size_t i = 0; i < elements; i++)
        x[i] = (float)convolved[i];
    n->x = x;
}

/* A case from a file, and the two answers, which the case owns; false when the file is not as
 * tests/vectors/README.md says. Close the case in either case. */
static bool open_vector(const char *path, scan_case *c, double **convolved, double **answer)
{
    *c = (scan_case){0};
    bool masked;
    FILE *file = fopen(path, "rb");
    if (!file || !read_head(file, &c->spec, &masked)) {
        if (file)
            fclose(file);
        return false;
    }
    const scan_spec *s = &c->spec;
    const size_t elements = (size_t)s->count * (size_t)s->channels;
    c->conv = (attn_conv){.count = s->count,
                          .channels = s->channels,
                          .width = s->width,
                          .x_stride = s->channels,
                          .out_stride = s->channels};
    c->scan = (attn_scan){.count = s->count,
                          .channels = s->channels,
                          .states = s->states,
                          .euler = s->euler,
                          .x_stride = s->channels,
                          .dt_stride = s->channels,
                          .b_stride = s->states,
                          .c_stride = s->states,
                          .z_stride = s->channels,
                          .y_stride = s->channels};
    read_inputs(c, file, masked);
    *convolved = read_array(c, file, true, elements, sizeof **convolved);
    *answer = read_array(c, file, true, elements, sizeof **answer);
    const bool whole = *answer && fgetc(file) == EOF;
    fclose(file);
    if (whole)
        complete(c, *convolved);
    return whole;
}

/* The file's values take the place of those that the bounds were computed beside. */
static void check_against(const scan_case *c, attn_isa isa, const char *what, const float *got,
                          scan_answer wanted, const double *value)
{
    memcpy(wanted.value, value, (size_t)c->spec.count * (size_t)c->spec.channels * sizeof *value);
    scan_check(c, isa, what, got, c->spec.channels, &wanted);
    scan_answer_close(&wanted);
}

static void check_vector(const char *name, scan_case *c, const attn_kernels *k,
                         const double *convolved, const double *answer)
{
    char conv[300], scan[300];
    snprintf(conv, sizeof conv, "conv of %s", name);
    snprintf(scan, sizeof scan, "scan of %s", name);
    scan_answer conv_bounds = scan_expect_conv(c), scan_bounds = scan_expect(c);
    memset(c->conv.history, 0, scan_history_floats(c) * sizeof(float));
    memset(c->scan.h, 0, scan_state_floats(c) * sizeof(float));
    scan_run(c, k->scan, c->spec.count, c->spec.channels);
    check_against(c, k->isa, conv, c->conv.out, conv_bounds, convolved);
    check_against(c, k->isa, scan, c->scan.y, scan_bounds, answer);
}

static bool is_vector(const char *name)
{
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".vec") == 0;
}

static void test_vectors(void)
{
    const char *root = getenv("ATTN_VECTORS");
    char folder[1024], path[2048];
    snprintf(folder, sizeof folder, "%s/scan", root ? root : ".");
    DIR *listing = opendir(folder);
    int count = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!is_vector(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        scan_case c;
        double *convolved, *answer;
        bool whole = open_vector(path, &c, &convolved, &answer);
        CHECK(whole, "%s is no vector", path);
        for (const attn_kernels *k = kernels_after(NULL); whole && k; k = kernels_after(k))
            check_vector(entry->d_name, &c, k, convolved, answer);
        scan_close(&c);
        count++;
    }
    if (listing)
        closedir(listing);
    CHECK(count > 0, "no vectors; make them with tests/vectors/make_scan_vectors.py DIR/scan and "
                     "set ATTN_VECTORS=DIR");
}

int main(void)
{
    static const test_case cases[] = {
        {"vectors", test_vectors},
        {NULL, NULL},
    };
    return test_main("scan_vectors", cases);
}
