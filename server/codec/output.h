/* Prints a tensor as JSON in pieces that any worker may make in any order and that are then put
 * end to end:
 *   nested  [[1,2],[3,4]]
 *   flat    {"shape":[2,2],"datatype":"FP32","data":[1,2,3,4]}
 *   base64  {"shape":[2,2],"datatype":"FP32","base64":"AACAPwAAAEAAAEBAAACAQA=="} */
#ifndef SERVER_CODEC_OUTPUT_H
#define SERVER_CODEC_OUTPUT_H

#include "server/codec/tensor.h"

/* Elements of a piece: about a millisecond of printing, and a multiple of 3 for base64's sake. */
#define SRV_OUTPUT_PIECE 30720

typedef struct srv_output {
    const float *data;         /* borrowed, row-major, finite */
    int rank;                  /* 1..SRV_RANK_MAX */
    int64_t dim[SRV_RANK_MAX]; /* all >= 1 */
    srv_form form;
} srv_output;

size_t srv_output_count(const srv_output *output); /* elements */
int64_t srv_output_pieces(const srv_output *output);

/* Bytes that the whole printed value can have at most. */
double srv_output_bound(const srv_output *output);

/* The text of one piece and its length, not terminated; the caller frees it. NULL: no memory. */
char *srv_output_print(const srv_output *output, int64_t piece, size_t *length);

#endif
