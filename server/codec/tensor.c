/* The tensors' names, and how error messages spell places and shapes. */
#include "server/codec/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const srv_tensor_names[SRV_TENSOR_NAMES] = {"q", "k",     "v",     "e",
                                                        "f", "omega", "input", "key_mask"};

int srv_tensor_find(const char *name)
{
    for (int i = 0; i < SRV_TENSOR_NAMES; i++)
        if (strcmp(srv_tensor_names[i], name) == 0)
            return i;
    return -1;
}

void srv_tensor_path(char *to, const char *name, const int64_t *index, int rank)
{
    int used = snprintf(to, SRV_PATH_MAX, "%s", name);
    for (int i = 0; i < rank && used < SRV_PATH_MAX; i++)
        used += snprintf(to + used, (size_t)(SRV_PATH_MAX - used), "[%" PRId64 "]", index[i]);
}

void srv_tensor_shape(char *to, const int64_t *dim, int rank)
{
    int used = snprintf(to, SRV_SHAPE_MAX, "[");
    for (int i = 0; i < rank && used < SRV_SHAPE_MAX; i++)
        used += snprintf(to + used, (size_t)(SRV_SHAPE_MAX - used), i ? ",%" PRId64 : "%" PRId64,
                         dim[i]);
    if (used < SRV_SHAPE_MAX)
        snprintf(to + used, (size_t)(SRV_SHAPE_MAX - used), "]");
}

void srv_tensor_index(int64_t *index, const int64_t *dim, int rank, int64_t flat)
{
    for (int i = rank - 1; i >= 0; i--) {
        index[i] = flat % dim[i];
        flat /= dim[i];
    }
}
