/* Options out of a JSON object. */
#include "server/attend/options_rules.h"
#include "server/codec/tensor.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *describe(const json_t *value, char text[64])
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        snprintf(text, 64, "%lld", (long long)json_integer_value(value));
        return text;
    case JSON_REAL:
        srv_rule_print_number(text, json_real_value(value));
        if (!strpbrk(text, ".e"))
            strcat(text, ".0"); /* "found 5, expected an integer" would puzzle */
        return text;
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        break;
    }
    return "null";
}

static attn_status wrong_type(const srv_rule *f, const json_t *value, attn_error *error)
{
    char text[64];
    return attn_error_set(error, ATTN_INVALID, f->path, "%s: found %s, expected %s", f->path,
                          describe(value, text), srv_rule_expectations[f->kind]);
}

static attn_status read_integers(const srv_rule *f, const json_t *array, srv_value *to,
                                 attn_error *error)
{
    size_t count = json_array_size(array);
    to->integers.data = calloc(count ? count : 1, sizeof *to->integers.data);
    if (!to->integers.data)
        return ATTN_NO_MEMORY;
    to->integers.count = count;
    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(array, i);
        char text[64];
        if (!json_is_integer(element))
            return attn_error_set(error, ATTN_INVALID, f->path,
                                  "%s[%zu]: found %s, expected an integer", f->path, i,
                                  describe(element, text));
        to->integers.data[i] = json_integer_value(element);
        attn_status status = srv_rule_check_range(f, (double)to->integers.data[i], "", error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static attn_status read_value(const srv_rule *f, const json_t *value, srv_value *to,
                              attn_error *error)
{
    const bool fits[] = {
        [SRV_RULE_BOOL] = json_is_boolean(value), [SRV_RULE_INT] = json_is_integer(value),
        [SRV_RULE_REAL] = json_is_number(value),  [SRV_RULE_STRING] = json_is_string(value),
        [SRV_RULE_INTS] = json_is_array(value),
    };
    if (!fits[f->kind])
        return wrong_type(f, value, error);
    to->given = true;
    switch (f->kind) {
    case SRV_RULE_BOOL:
        to->boolean = json_is_true(value);
        return ATTN_OK;
    case SRV_RULE_INT:
        to->integer = json_integer_value(value);
        return srv_rule_check_range(f, (double)to->integer, "", error);
    case SRV_RULE_REAL:
        to->real = json_number_value(value);
        return srv_rule_check_range(f, to->real, "", error);
    case SRV_RULE_STRING:
        to->string = json_string_value(value);
        return srv_rule_check_range(f, (double)json_string_length(value), "a string of length ",
                                    error);
    case SRV_RULE_INTS:
        break;
    }
    return read_integers(f, value, to, error);
}

static attn_status read_members(srv_options *options, unsigned routes, const char *group,
                                const json_t *object, attn_error *error)
{
    const char *member;
    json_t *value;
    if (!json_is_object(object)) {
        char text[64];
        return attn_error_set(error, ATTN_INVALID, group, "%s: found %s, expected an object", group,
                              describe(object, text));
    }
    json_object_foreach((json_t *)object, member, value)
    {
        int i = srv_rule_find(routes, group, member);
        if (i < 0)
            return srv_rule_unknown(routes, group, member, error);
        attn_status status = read_value(&srv_rules[i], value, &options->values[i], error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static bool is_group(const char *name, unsigned routes)
{
    return strcmp(name, "params") == 0 || strcmp(name, "hints") == 0 ||
           ((routes & SRV_FOR_PLAN) && strcmp(name, "shape") == 0);
}

attn_status srv_options_read(srv_options *options, const json_t *document, unsigned routes,
                             attn_error *error)
{
    const char *member;
    json_t *value;
    *options = (srv_options){0};
    json_object_foreach((json_t *)document, member, value)
    {
        attn_status status = ATTN_OK;
        if (srv_tensor_find(member) >= 0)
            continue;
        int i = srv_rule_find(routes, NULL, member);
        if (is_group(member, routes))
            status = read_members(options, routes, member, value, error);
        else if (i < 0)
            status = srv_rule_unknown(routes, NULL, member, error);
        else
            status = read_value(&srv_rules[i], value, &options->values[i], error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

/* JSON's own number grammar, so that a query string takes what a body takes. ATTN_NO_MEMORY is told
 * by errno: jansson calls some of its failed allocations a syntax error. */
attn_status srv_rule_scan_real(const char *text, double *value)
{
    errno = 0;
    json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
    attn_status status = json_is_number(number) ? ATTN_OK
                         : errno == ENOMEM      ? ATTN_NO_MEMORY
                                                : ATTN_INVALID;
    *value = json_number_value(number);
    json_decref(number);
    return status;
}
