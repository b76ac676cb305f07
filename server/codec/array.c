/* The array scanner: a small automaton around one tight loop over the numbers of a row. */
#include "server/codec/array.h"

#include "server/codec/number.h"

#include <inttypes.h>

/* Report a fault at the place given by the first `depth` indices. */
static srv_body_step fault(const srv_array *array, int depth, attn_status status, attn_error *error,
                           const char *problem)
{
    char path[SRV_PATH_MAX];
    srv_tensor_path(path, array->label, array->index, depth);
    attn_error_set(error, status, path, "%s: %s", path, problem);
    return SRV_BODY_FAULT;
}

static srv_body_step unexpected(const srv_array *array, const srv_cursor *cursor,
                                attn_status status, attn_error *error, const char *expected)
{
    char path[SRV_PATH_MAX], found[SRV_TOKEN_MAX];
    srv_tensor_path(path, array->label, array->index, array->depth);
    srv_token_describe(found, cursor->at, cursor->end);
    attn_error_set(error, status, path, "%s: found %s, expected %s", path, found, expected);
    return SRV_BODY_FAULT;
}

static srv_body_step no_memory(const srv_array *array, attn_error *error)
{
    attn_error_set(error, ATTN_NO_MEMORY, array->label, "%s: no memory for more numbers",
                   array->label);
    return SRV_BODY_FAULT;
}

/* The innermost open array has `count` items (or more, when it goes on), its first sibling had
 * another number. */
static srv_body_step ragged(const srv_array *array, int64_t count, bool goes_on, attn_error *error)
{
    static const int64_t zeros[SRV_RANK_MAX] = {0};
    int level = array->depth - 1;
    const char *noun = array->depth == array->rank ? "number" : "array";
    char path[SRV_PATH_MAX], sibling[SRV_PATH_MAX];
    srv_tensor_path(path, array->label, array->index, level);
    srv_tensor_path(sibling, array->label, zeros, level);
    attn_error_set(error, ATTN_INVALID, path,
                   "%s has %s%" PRId64 " %s%s, expected %" PRId64 " as in %s", path,
                   goes_on ? "more than " : "", count, noun, count == 1 ? "" : "s",
                   array->dim[level], sibling);
    return SRV_BODY_FAULT;
}

static srv_body_step bad_number(const srv_array *array, const srv_cursor *cursor, srv_number why,
                                attn_error *error)
{
    if (why == SRV_NUMBER_LONG)
        return fault(array, array->depth, ATTN_INVALID, error,
                     "the number is longer than 4096 characters");
    if (why == SRV_NUMBER_NONE)
        return unexpected(array, cursor, ATTN_INVALID, error, "a number");
    char path[SRV_PATH_MAX], found[SRV_TOKEN_MAX];
    srv_tensor_path(path, array->label, array->index, array->depth);
    srv_token_describe(found, cursor->at, cursor->end);
    attn_error_set(error, ATTN_INVALID, path, "%s: %s is beyond float32", path, found);
    return SRV_BODY_FAULT;
}

static inline bool starts_number(char c)
{
    return c == '-' || (c >= '0' && c <= '9');
}

/* Read numbers as long as they come one after another with no more than a space between. */
static srv_body_step read_numbers(srv_array *array, srv_cursor *cursor, attn_error *error)
{
    if (!srv_buffer_reserve(&array->floats, sizeof(float)))
        return no_memory(array, error);
    int64_t dim = array->dim[array->depth - 1], first = array->index[array->depth - 1];
    size_t room = (array->floats.capacity - array->floats.used) / sizeof(float);
    if (dim && (size_t)(dim - first) < room)
        room = (size_t)(dim - first);
    float *to = (float *)array->floats.bytes + array->floats.used / sizeof(float);
    const char *at = cursor->at;
    size_t count = 0;
    srv_number result;
    array->state = SRV_ARRAY_NEXT;
    while ((result = srv_number_read(&at, &to[count])) == SRV_NUMBER_OK) {
        count++;
        if (*at != ',' || count == room || at >= cursor->limit)
            break;
        at++;
        at += *at == ' ';
        if (!starts_number(*at)) {
            array->state = SRV_ARRAY_ITEM;
            break;
        }
    }
    bool between = result == SRV_NUMBER_OK && array->state == SRV_ARRAY_NEXT;
    array->index[array->depth - 1] = first + (int64_t)count - between;
    array->floats.used += count * sizeof(float);
    cursor->at = at;
    return result == SRV_NUMBER_OK ? SRV_BODY_MORE : bad_number(array, cursor, result, error);
}

static srv_body_step open_bracket(srv_array *array, srv_cursor *cursor, attn_error *error)
{
    if (array->rank && array->depth == array->rank)
        return unexpected(array, cursor, ATTN_INVALID, error, "a number");
    if (array->depth == SRV_RANK_MAX)
        return fault(array, array->depth, ATTN_INVALID, error, "nested deeper than 4 arrays");
    array->index[array->depth++] = 0;
    array->state = SRV_ARRAY_FIRST;
    cursor->at++;
    return SRV_BODY_MORE;
}

static srv_body_step close_bracket(srv_array *array, srv_cursor *cursor, attn_error *error)
{
    int level = array->depth - 1;
    int64_t count = array->index[level] + 1;
    if (array->dim[level] == 0)
        array->dim[level] = count;
    if (array->dim[level] != count)
        return ragged(array, count, false, error);
    array->depth = level;
    cursor->at++;
    if (level > 0)
        return SRV_BODY_MORE;
    srv_buffer_trim(&array->floats);
    return SRV_BODY_DONE;
}

static srv_body_step read_item(srv_array *array, srv_cursor *cursor, attn_error *error)
{
    if (*cursor->at == '[')
        return open_bracket(array, cursor, error);
    if (*cursor->at == ']' && array->state == SRV_ARRAY_FIRST)
        return fault(array, array->depth - 1, ATTN_INVALID, error,
                     "found an empty array; every dimension is at least 1");
    if (*cursor->at == ']')
        return unexpected(array, cursor, ATTN_MALFORMED, error, "an item after the comma");
    if (array->depth < array->rank)
        return unexpected(array, cursor, ATTN_INVALID, error, "an array");
    array->rank = array->depth;
    return read_numbers(array, cursor, error);
}

static srv_body_step read_separator(srv_array *array, srv_cursor *cursor, attn_error *error)
{
    if (*cursor->at == ']')
        return close_bracket(array, cursor, error);
    if (*cursor->at != ',')
        return unexpected(array, cursor, ATTN_MALFORMED, error, "',' or ']'");
    int64_t dim = array->dim[array->depth - 1], *index = &array->index[array->depth - 1];
    if (dim && *index + 1 == dim)
        return ragged(array, dim, true, error);
    ++*index;
    cursor->at++;
    array->state = SRV_ARRAY_ITEM;
    return SRV_BODY_MORE;
}

srv_body_step srv_array_read(srv_array *array, srv_cursor *cursor, attn_error *error)
{
    while (srv_cursor_skip_space(cursor)) {
        srv_body_step step = array->state == SRV_ARRAY_NEXT ? read_separator(array, cursor, error)
                                                            : read_item(array, cursor, error);
        if (step != SRV_BODY_MORE)
            return step;
    }
    return SRV_BODY_MORE;
}

void srv_array_close(srv_array *array)
{
    srv_buffer_close(&array->floats);
}
