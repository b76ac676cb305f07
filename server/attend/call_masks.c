/* Lengths and key masks. */
#include "server/attend/call_masks.h"

#include <stdlib.h>

static attn_status read_lengths(srv_call *call, const srv_options *options, attn_error *error)
{
    const srv_value *lengths = &options->values[SRV_FIELD_LENGTHS];
    if (!lengths->given)
        return ATTN_OK;
    if ((int64_t)lengths->integers.count != call->shape.batch)
        return attn_error_set(error, ATTN_INVALID, "lengths",
                              "lengths has %zu entries, expected one for each of the %lld batch "
                              "rows",
                              lengths->integers.count, (long long)call->shape.batch);
    for (int64_t b = 0; b < call->shape.batch; b++)
        if (lengths->integers.data[b] > call->shape.m)
            return attn_error_set(error, ATTN_INVALID, "lengths",
                                  "lengths[%lld] is %lld, expected 0 to the %lld keys there are",
                                  (long long)b, (long long)lengths->integers.data[b],
                                  (long long)call->shape.m);
    call->params.mask.lengths = lengths->integers.data;
    return ATTN_OK;
}

static attn_status check_mask_shape(const srv_call *call, const srv_tensor *mask, attn_error *error)
{
    char found[SRV_SHAPE_MAX];
    bool shared = mask->rank == 1 && mask->dim[0] == call->shape.m;
    bool each =
        mask->rank == 2 && mask->dim[0] == call->shape.batch && mask->dim[1] == call->shape.m;
    if (shared || each)
        return ATTN_OK;
    srv_tensor_shape(found, mask->dim, mask->rank);
    return attn_error_set(error, ATTN_INVALID, "key_mask",
                          "key_mask is %s, expected [%lld] or [%lld,%lld]: one entry for each of "
                          "the %lld keys of k",
                          found, (long long)call->shape.m, (long long)call->shape.batch,
                          (long long)call->shape.m, (long long)call->shape.m);
}

static attn_status read_key_mask(srv_call *call, const srv_tensor *mask, attn_error *error)
{
    if (!mask)
        return ATTN_OK;
    if (call->params.mask.lengths)
        return attn_error_set(error, ATTN_INVALID, "key_mask",
                              "key_mask and lengths are both given; send one of them");
    attn_status status = check_mask_shape(call, mask, error);
    if (status != ATTN_OK)
        return status;
    size_t count = (size_t)(call->shape.batch * call->shape.m);
    call->key_mask = malloc(count);
    if (!call->key_mask)
        return ATTN_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        float value = mask->data[i % mask->count];
        if (value != 0 && value != 1) {
            int64_t index[SRV_RANK_MAX];
            char path[SRV_PATH_MAX];
            srv_tensor_index(index, mask->dim, mask->rank, (int64_t)i);
            srv_tensor_path(path, "key_mask", index, mask->rank);
            return attn_error_set(error, ATTN_INVALID, path, "%s: found %g, expected 0 or 1", path,
                                  (double)value);
        }
        call->key_mask[i] = value != 0;
    }
    call->params.mask.key_mask = call->key_mask;
    return ATTN_OK;
}

static int64_t valid_keys(const srv_call *call, int64_t b)
{
    const attn_mask *mask = &call->params.mask;
    if (mask->lengths)
        return mask->lengths[b];
    int64_t valid = 0;
    for (int64_t j = 0; j < call->shape.m; j++)
        valid += mask->key_mask[b * call->shape.m + j] != 0;
    return valid;
}

static void find_longest(srv_call *call)
{
    const attn_mask *mask = &call->params.mask;
    call->longest = mask->lengths || mask->key_mask ? 0 : call->shape.m;
    for (int64_t b = 0; (mask->lengths || mask->key_mask) && b < call->shape.batch; b++) {
        int64_t valid = valid_keys(call, b);
        call->longest = valid > call->longest ? valid : call->longest;
    }
}

attn_status srv_call_read_masks(srv_call *call, const srv_tensor *key_mask,
                                const srv_options *options, attn_error *error)
{
    attn_status status = read_lengths(call, options, error);
    if (status == ATTN_OK)
        status = read_key_mask(call, key_mask, error);
    find_longest(call);
    return status;
}
