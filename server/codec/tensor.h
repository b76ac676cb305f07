/* A tensor as it came over the wire: float32, dense, row-major, with the form its client wrote. */
#ifndef SERVER_CODEC_TENSOR_H
#define SERVER_CODEC_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum {
    SRV_RANK_MAX = 4,
    SRV_TENSOR_NAMES = 8
};

/* The names of the tensors that a request may hold. */
extern const char *const srv_tensor_names[SRV_TENSOR_NAMES];

/* The index of that name, or -1. */
int srv_tensor_find(const char *name);

/* How a client wrote a tensor; the answer takes the same form. */
typedef enum srv_form {
    SRV_FORM_NESTED, /* [[1,2],[3,4]] */
    SRV_FORM_FLAT,   /* {"shape":[2,2],"datatype":"FP32","data":[1,2,3,4]} */
    SRV_FORM_BASE64, /* {"shape":[2,2],"datatype":"FP32","base64":"..."} */
} srv_form;

typedef struct srv_tensor {
    float *data;
    size_t count; /* the product of dim */
    int rank;     /* 1..SRV_RANK_MAX */
    int64_t dim[SRV_RANK_MAX];
    srv_form form;
} srv_tensor;

enum {
    SRV_PATH_MAX = 64,
    SRV_SHAPE_MAX = 96
};

/* Print the place of an element, "q[3][17]", at `to` of SRV_PATH_MAX bytes. */
void srv_tensor_path(char *to, const char *name, const int64_t *index, int rank);

/* Print sizes, "[2,3]", at `to` of SRV_SHAPE_MAX bytes. */
void srv_tensor_shape(char *to, const int64_t *dim, int rank);

/* The place of element `flat` of an array of this shape. */
void srv_tensor_index(int64_t *index, const int64_t *dim, int rank, int64_t flat);

#endif
