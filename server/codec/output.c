/* Printing in pieces. The first piece carries the head and the last one the tail; brackets and
 * commas between depend on an element's number alone, so no piece needs to know another. */
#include "server/codec/output.h"

#include "server/codec/base64.h"
#include "server/codec/number.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD_MAX = SRV_SHAPE_MAX + 64,
    TAIL_MAX = 2
};

size_t srv_output_count(const srv_output *output)
{
    int64_t count = 1;
    for (int i = 0; i < output->rank; i++)
        count *= output->dim[i];
    return (size_t)count;
}

int64_t srv_output_pieces(const srv_output *output)
{
    return ((int64_t)srv_output_count(output) + SRV_OUTPUT_PIECE - 1) / SRV_OUTPUT_PIECE;
}

double srv_output_bound(const srv_output *output)
{
    const double head_and_tail = 256, text = 17; /* a number and its comma */
    double elements = (double)srv_output_count(output), arrays = 0, product = 1;
    for (int i = 0; i + 1 < output->rank; i++)
        arrays += product *= (double)output->dim[i];
    /* Two brackets an array and a comma between arrays. */
    return elements * text + 3 * (arrays + 1) + head_and_tail;
}

/* How many of the innermost arrays begin at element `at`: all of those whose size divides it. */
static int boundaries(const srv_output *output, int64_t at)
{
    int levels = 0;
    int64_t stride = 1;
    while (levels < output->rank && at % (stride *= output->dim[output->rank - 1 - levels]) == 0)
        levels++;
    return levels;
}

static char *put(char *to, char c, int times)
{
    memset(to, c, (size_t)times);
    return to + times;
}

/* Numbers and commas of [first, last), a comma before each but the first of a row. */
static char *print_row(const float *data, int64_t first, int64_t last, bool starts, char *to)
{
    for (int64_t i = first; i < last; i++) {
        *to = ',';
        to += i > first || !starts;
        to += srv_number_print(data[i], to);
    }
    return to;
}

/* Rows of [first, last) with the brackets that open and close between them. */
static char *print_nested(const srv_output *output, int64_t first, int64_t last, char *to)
{
    int64_t columns = output->dim[output->rank - 1];
    for (int64_t at = first; at < last;) {
        int64_t row_end = (at / columns + 1) * columns;
        int64_t end = row_end < last ? row_end : last;
        bool starts = at % columns == 0;
        if (starts) {
            int levels = boundaries(output, at);
            *to = ',';
            to += at > 0;
            to = put(to, '[', levels);
        }
        to = print_row(output->data, at, end, starts, to);
        if (end == row_end)
            to = put(to, ']', boundaries(output, end));
        at = end;
    }
    return to;
}

static char *print_head(const srv_output *output, char *to)
{
    char shape[SRV_SHAPE_MAX];
    srv_tensor_shape(shape, output->dim, output->rank);
    const char *opening = output->form == SRV_FORM_BASE64 ? "\"base64\":\"" : "\"data\":[";
    return to + sprintf(to, "{\"shape\":%s,\"datatype\":\"FP32\",%s", shape, opening);
}

/* Room that a piece of `count` elements may touch. */
static size_t piece_bytes(const srv_output *output, size_t count)
{
    size_t body = SRV_BASE64_CHARACTERS(count * sizeof(float));
    if (output->form != SRV_FORM_BASE64)
        body = count * (SRV_NUMBER_MAX + 1);
    if (output->form == SRV_FORM_NESTED)
        body += count * 2 * (size_t)output->rank;
    return HEAD_MAX + body + TAIL_MAX;
}

static char *print_elements(const srv_output *output, int64_t first, int64_t last, char *to)
{
    switch (output->form) {
    case SRV_FORM_NESTED:
        return print_nested(output, first, last, to);
    case SRV_FORM_FLAT:
        return print_row(output->data, first, last, first == 0, to);
    default:
        return to +
               srv_base64_encode(output->data + first, (size_t)(last - first) * sizeof(float), to);
    }
}

char *srv_output_print(const srv_output *output, int64_t piece, size_t *length)
{
    int64_t total = (int64_t)srv_output_count(output), first = piece * SRV_OUTPUT_PIECE;
    int64_t last = total - first < SRV_OUTPUT_PIECE ? total : first + SRV_OUTPUT_PIECE;
    char *text = malloc(piece_bytes(output, (size_t)(last - first)));
    if (!text)
        return NULL;
    bool wrapped = output->form != SRV_FORM_NESTED;
    char *to = wrapped && first == 0 ? print_head(output, text) : text;
    to = print_elements(output, first, last, to);
    if (wrapped && last == total) {
        memcpy(to, output->form == SRV_FORM_FLAT ? "]}" : "\"}", TAIL_MAX);
        to += TAIL_MAX;
    }
    *length = (size_t)(to - text);
    char *trimmed = realloc(text, *length);
    return trimmed ? trimmed : text;
}
