/* Tensors in the Open Inference Protocol's clothes, or as plain nested arrays. */
#include "server/codec/field.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

void srv_field_init(srv_field *field, const char *name)
{
    *field = (srv_field){.name = name};
}

/* Fail with "<name><part>: <problem>". */
static attn_status refuse(const srv_field *field, const char *part, const char *problem,
                          attn_error *error)
{
    char param[SRV_PATH_MAX];
    snprintf(param, sizeof param, "%s%s", field->name, part);
    return attn_error_set(error, ATTN_INVALID, param, "%s: %s", param, problem);
}

/* Reading */

srv_body_step srv_field_read_array(srv_field *field, bool bare, srv_cursor *cursor,
                                   attn_error *error)
{
    if (!field->has_data) {
        field->has_data = true;
        field->bare = bare;
        snprintf(field->array_label, SRV_FIELD_LABEL, bare ? "%s" : "%s.data", field->name);
        field->array.label = field->array_label;
    }
    return srv_array_read(&field->array, cursor, error);
}

srv_body_step srv_field_read_base64(srv_field *field, srv_cursor *cursor, attn_error *error)
{
    if (!field->has_base64) {
        field->has_base64 = true;
        snprintf(field->base64_label, SRV_FIELD_LABEL, "%s.base64", field->name);
        field->base64.label = field->base64_label;
    }
    return srv_base64_text_read(&field->base64, cursor, error);
}

/* Settling */

/* What a JSON value is, for error messages, at `to` of SRV_TOKEN_MAX bytes. */
static void describe(char *to, const json_t *value)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_REAL] = "a fractional number",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",    [JSON_NULL] = "null",
    };
    if (json_is_string(value))
        srv_token_quote(to, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        snprintf(to, SRV_TOKEN_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(to, SRV_TOKEN_MAX, "%s", kinds[json_typeof(value)]);
}

static attn_status refuse_value(const srv_field *field, const char *part, const json_t *value,
                                const char *expected, attn_error *error)
{
    char found[SRV_TOKEN_MAX], problem[160];
    describe(found, value);
    snprintf(problem, sizeof problem, "found %s, expected %s", found, expected);
    return refuse(field, part, problem, error);
}

static attn_status check_keys(const srv_field *field, json_t *value, attn_error *error)
{
    static const char *const known[] = {"shape", "datatype", "data", "base64"};
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        size_t i = 0;
        while (i < 4 && strcmp(key, known[i]) != 0)
            i++;
        if (i < 4)
            continue;
        char quoted[SRV_TOKEN_MAX], problem[128];
        srv_token_quote(quoted, key, strlen(key));
        snprintf(problem, sizeof problem,
                 "unknown key %s; a tensor has shape, datatype, and data or base64", quoted);
        return refuse(field, "", problem, error);
    }
    return ATTN_OK;
}

static attn_status read_shape(srv_field *field, const json_t *shape, attn_error *error)
{
    if (!shape)
        return refuse(field, "", "shape is missing", error);
    if (!json_is_array(shape))
        return refuse_value(field, ".shape", shape, "an array of whole numbers", error);
    size_t rank = json_array_size(shape);
    if (rank < 1 || rank > SRV_RANK_MAX)
        return refuse(field, ".shape", "expected 1 to 4 dimensions", error);
    int64_t count = 1;
    bool overflow = false;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(shape, i);
        char part[16];
        snprintf(part, sizeof part, ".shape[%zu]", i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 1)
            return refuse_value(field, part, dim, "a whole number of at least 1", error);
        field->tensor.dim[i] = json_integer_value(dim);
        overflow |= __builtin_mul_overflow(count, field->tensor.dim[i], &count);
    }
    if (overflow)
        return refuse(field, ".shape", "holds more numbers than can be counted", error);
    field->tensor.rank = (int)rank;
    field->tensor.count = (size_t)count;
    return ATTN_OK;
}

static attn_status read_datatype(srv_field *field, const json_t *datatype, attn_error *error)
{
    field->dtype = ATTN_FP32;
    if (!datatype)
        return ATTN_OK;
    if (json_is_string(datatype) && attn_dtype_find(json_string_value(datatype), &field->dtype))
        return ATTN_OK;
    return refuse_value(field, ".datatype", datatype, "FP32, FP16, BF16 or FP64", error);
}

/* One of data and base64 must have been read. */
static attn_status check_source(const srv_field *field, const json_t *value, attn_error *error)
{
    const json_t *data = json_object_get(value, "data");
    const json_t *base64 = json_object_get(value, "base64");
    if (data && base64)
        return refuse(field, "", "has both data and base64, expected one of them", error);
    if (data && !field->has_data)
        return refuse_value(field, ".data", data, "an array of numbers", error);
    if (base64 && !field->has_base64)
        return refuse_value(field, ".base64", base64, "a string", error);
    return data || base64 ? ATTN_OK : refuse(field, "", "data or base64 is missing", error);
}

/* Flat data must have as many numbers as the shape says, nested data the shape itself. */
static attn_status check_data(const srv_field *field, attn_error *error)
{
    const srv_tensor *tensor = &field->tensor;
    const srv_array *array = &field->array;
    size_t count = array->floats.used / sizeof(float);
    char shape[SRV_SHAPE_MAX], nesting[SRV_SHAPE_MAX];
    srv_tensor_shape(shape, tensor->dim, tensor->rank);
    if (count != tensor->count)
        return attn_error_set(error, ATTN_INVALID, field->name,
                              "%s has %zu number%s, its shape %s needs %zu", field->name, count,
                              count == 1 ? "" : "s", shape, tensor->count);
    bool same = array->rank == tensor->rank &&
                memcmp(array->dim, tensor->dim, (size_t)array->rank * sizeof *array->dim) == 0;
    if (array->rank == 1 || same)
        return ATTN_OK;
    srv_tensor_shape(nesting, array->dim, array->rank);
    return attn_error_set(error, ATTN_INVALID, field->name,
                          "%s: the data is nested as %s, its shape is %s", field->name, nesting,
                          shape);
}

static attn_status check_bytes(const srv_field *field, attn_error *error)
{
    const srv_tensor *tensor = &field->tensor;
    size_t element = attn_dtype_bytes(field->dtype), bytes = field->base64.raw.used;
    if (bytes % element == 0 && bytes / element == tensor->count)
        return ATTN_OK;
    char shape[SRV_SHAPE_MAX];
    srv_tensor_shape(shape, tensor->dim, tensor->rank);
    return attn_error_set(error, ATTN_INVALID, field->base64_label,
                          "%s has %zu bytes, its shape %s needs %zu numbers of %zu bytes (%s)",
                          field->base64_label, bytes, shape, tensor->count, element,
                          attn_dtype_name(field->dtype));
}

static attn_status settle_object(srv_field *field, json_t *value, attn_error *error)
{
    attn_status status = check_keys(field, value, error);
    if (!status)
        status = check_source(field, value, error);
    if (!status)
        status = read_shape(field, json_object_get(value, "shape"), error);
    if (!status)
        status = read_datatype(field, json_object_get(value, "datatype"), error);
    if (status)
        return status;
    field->tensor.form = field->has_base64 ? SRV_FORM_BASE64 : SRV_FORM_FLAT;
    return field->has_base64 ? check_bytes(field, error) : check_data(field, error);
}

attn_status srv_field_settle(srv_field *field, struct json_t *value, attn_error *error)
{
    if (json_is_object(value))
        return settle_object(field, value, error);
    if (!field->bare)
        return refuse_value(field, "", value,
                            "nested arrays of numbers or an object with shape and data", error);
    field->tensor.form = SRV_FORM_NESTED;
    field->tensor.rank = field->array.rank;
    field->tensor.count = field->array.floats.used / sizeof(float);
    memcpy(field->tensor.dim, field->array.dim, sizeof field->tensor.dim);
    return ATTN_OK;
}

/* Converting */

/* FP32 stays where it was decoded; the other types need floats of their own. */
static bool take_floats(srv_field *field)
{
    srv_buffer *floats = &field->array.floats, *raw = &field->base64.raw;
    if (field->dtype == ATTN_FP32) {
        *floats = *raw;
        *raw = (srv_buffer){0};
        return true;
    }
    return srv_buffer_reserve(floats, field->tensor.count * sizeof(float));
}

static bool check_finite(const srv_field *field, const float *values, size_t count,
                         attn_error *error)
{
    size_t first = attn_first_non_finite(values, count);
    if (first == count)
        return true;
    int64_t index[SRV_RANK_MAX];
    char path[SRV_PATH_MAX];
    const srv_tensor *tensor = &field->tensor;
    srv_tensor_index(index, tensor->dim, tensor->rank, (int64_t)(field->converted + first));
    srv_tensor_path(path, field->name, index, tensor->rank);
    attn_error_set(error, ATTN_INVALID, path,
                   "%s: found a NaN, an infinity or a number beyond float32", path);
    return false;
}

static srv_body_step convert_bytes(srv_field *field, size_t bytes, attn_error *error)
{
    size_t element = attn_dtype_bytes(field->dtype);
    size_t left = field->tensor.count - field->converted, count = bytes / element + 1;
    count = count < left ? count : left;
    float *to = field->tensor.data + field->converted;
    const char *raw = field->base64.raw.bytes;
    if (raw)
        attn_dtype_to_float(field->dtype, raw + field->converted * element, count, to);
    if (!check_finite(field, to, count, error))
        return SRV_BODY_FAULT;
    field->converted += count;
    if (count < left)
        return SRV_BODY_MORE;
    srv_buffer_close(&field->base64.raw);
    return SRV_BODY_DONE;
}

srv_body_step srv_field_convert(srv_field *field, size_t bytes, attn_error *error)
{
    bool encoded = field->tensor.form == SRV_FORM_BASE64;
    if (encoded && field->converted == 0 && !take_floats(field)) {
        attn_error_set(error, ATTN_NO_MEMORY, field->name, "%s: no memory for its numbers",
                       field->name);
        return SRV_BODY_FAULT;
    }
    field->tensor.data = field->array.floats.bytes;
    return encoded ? convert_bytes(field, bytes, error) : SRV_BODY_DONE;
}

void srv_field_close(srv_field *field)
{
    srv_array_close(&field->array);
    srv_base64_text_close(&field->base64);
}
