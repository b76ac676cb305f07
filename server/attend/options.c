/* Reading options: one table drives lookup, types, ranges and error sentences. */
#include "server/attend/options.h"

#include "server/codec/body.h"
#include "server/text.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    BOOL,
    INT,
    REAL,
    STRING,
    INTS,
} kind;

typedef struct field_rule {
    const char *path;
    kind kind;
    double least, most;
    const char *backends;
} field_rule;

static const field_rule fields[] = {
#define FIELD(id, path, kind, least, most, backends) {path, kind, least, most, backends},
#include "server/attend/fields.def"
#undef FIELD
};

static const char *const expectations[] = {
    [BOOL] = "true or false",
    [INT] = "an integer",
    [REAL] = "a number",
    [STRING] = "a string",
    [INTS] = "an array of integers",
};

static const char *print_number(char to[32], double value)
{
    srv_text text = srv_text_lend(to, 32);
    srv_text_real(&text, value);
    return to;
}

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
        print_number(text, json_real_value(value));
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

static attn_status wrong_type(const field_rule *f, const json_t *value, attn_error *error)
{
    char text[64];
    return attn_error_set(error, ATTN_INVALID, f->path, "%s: found %s, expected %s", f->path,
                          describe(value, text), expectations[f->kind]);
}

static attn_status check_range(const field_rule *f, double value, const char *what,
                               attn_error *error)
{
    if (value >= f->least && value <= f->most)
        return ATTN_OK;
    char found[32], least[32], most[32];
    return attn_error_set(error, ATTN_INVALID, f->path, "%s: found %s%s, expected %s to %s",
                          f->path, what, print_number(found, value), print_number(least, f->least),
                          print_number(most, f->most));
}

static attn_status read_integers(const field_rule *f, const json_t *array, srv_value *to,
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
        attn_status status = check_range(f, (double)to->integers.data[i], "", error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static attn_status read_value(const field_rule *f, const json_t *value, srv_value *to,
                              attn_error *error)
{
    const bool fits[] = {
        [BOOL] = json_is_boolean(value), [INT] = json_is_integer(value),
        [REAL] = json_is_number(value),  [STRING] = json_is_string(value),
        [INTS] = json_is_array(value),
    };
    if (!fits[f->kind])
        return wrong_type(f, value, error);
    to->given = true;
    switch (f->kind) {
    case BOOL:
        to->boolean = json_is_true(value);
        return ATTN_OK;
    case INT:
        to->integer = json_integer_value(value);
        return check_range(f, (double)to->integer, "", error);
    case REAL:
        to->real = json_number_value(value);
        return check_range(f, to->real, "", error);
    case STRING:
        to->string = json_string_value(value);
        return check_range(f, (double)json_string_length(value), "a string of length ", error);
    case INTS:
        break;
    }
    return read_integers(f, value, to, error);
}

/* "params.window" for group "params" and member "window"; without a group, a path that has none. */
static bool same_path(const char *path, const char *group, const char *member)
{
    size_t length = group ? strlen(group) : 0;
    if (!group)
        return strcmp(path, member) == 0 && !strchr(path, '.');
    return strncmp(path, group, length) == 0 && path[length] == '.' &&
           strcmp(path + length + 1, member) == 0;
}

/* As a query string spells it. */
static int find_path(const char *path)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if (strcmp(fields[i].path, path) == 0)
            return i;
    return -1;
}

static int find_field(const char *group, const char *member)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if (same_path(fields[i].path, group, member))
            return i;
    return -1;
}

/* The members that exist in `group`, or at the top level, as a sentence lists them. */
static void list_members(const char *group, char *text, size_t size)
{
    size_t skip = group ? strlen(group) + 1 : 0, used = 0;
    text[0] = '\0';
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const char *path = fields[i].path;
        bool inside = group ? strncmp(path, group, skip - 1) == 0 && path[skip - 1] == '.'
                            : strchr(path, '.') == NULL;
        if (inside && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", path + skip);
    }
}

static attn_status unknown_member(const char *group, const char *member, attn_error *error)
{
    char path[64], known[200];
    snprintf(path, sizeof path, "%s%s%.40s", group ? group : "", group ? "." : "", member);
    list_members(group, known, sizeof known);
    return attn_error_set(error, ATTN_INVALID, path, "%s is not a known field; known %s are %s%s",
                          path, group ? "here" : "beside the tensors", known,
                          group ? "" : ", params, hints");
}

static attn_status read_members(srv_options *options, const char *group, const json_t *object,
                                attn_error *error)
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
        int i = find_field(group, member);
        if (i < 0)
            return unknown_member(group, member, error);
        attn_status status = read_value(&fields[i], value, &options->values[i], error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static bool is_group(const char *name, bool with_shape)
{
    return strcmp(name, "params") == 0 || strcmp(name, "hints") == 0 ||
           (with_shape && strcmp(name, "shape") == 0);
}

attn_status srv_options_read(srv_options *options, const json_t *document, bool with_shape,
                             attn_error *error)
{
    const char *member;
    json_t *value;
    *options = (srv_options){0};
    json_object_foreach((json_t *)document, member, value)
    {
        attn_status status = ATTN_OK;
        if (srv_body_is_tensor(member))
            continue;
        int i = find_field(NULL, member);
        if (is_group(member, with_shape))
            status = read_members(options, member, value, error);
        else if (i < 0)
            status = unknown_member(NULL, member, error);
        else
            status = read_value(&fields[i], value, &options->values[i], error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

/* A whole decimal integer at *text, which moves past it. */
static bool scan_integer(const char **text, int64_t *value)
{
    char *end;
    errno = 0;
    const char *digits = *text + (**text == '-');
    if (!isdigit((unsigned char)*digits))
        return false;
    *value = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* JSON's own number grammar, so that a query string takes what a body takes. ATTN_NO_MEMORY is told
 * by errno: jansson calls some of its failed allocations a syntax error. */
static attn_status scan_real(const char *text, double *value)
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

static attn_status wrong_text(const field_rule *f, const char *text, attn_error *error)
{
    return attn_error_set(error, ATTN_INVALID, f->path, "%s: found \"%.40s\", expected %s", f->path,
                          text, f->kind == INTS ? "integers with commas" : expectations[f->kind]);
}

static attn_status scan_integers(const field_rule *f, const char *text, srv_value *to,
                                 attn_error *error)
{
    size_t room = 1;
    for (const char *c = text; *c; c++)
        room += *c == ',';
    to->integers.data = calloc(room, sizeof *to->integers.data);
    if (!to->integers.data)
        return ATTN_NO_MEMORY;
    for (const char *at = text;; at++) {
        int64_t *value = &to->integers.data[to->integers.count++];
        if (!scan_integer(&at, value) || (*at != ',' && *at != '\0'))
            return wrong_text(f, text, error);
        attn_status status = check_range(f, (double)*value, "", error);
        if (status != ATTN_OK || *at == '\0')
            return status;
    }
}

static attn_status scan_value(const field_rule *f, const char *text, srv_value *to,
                              attn_error *error)
{
    const char *at = text;
    attn_status status;
    to->given = true;
    switch (f->kind) {
    case BOOL:
        to->boolean = strcmp(text, "true") == 0;
        return to->boolean || strcmp(text, "false") == 0 ? ATTN_OK : wrong_text(f, text, error);
    case INT:
        if (!scan_integer(&at, &to->integer) || *at)
            return wrong_text(f, text, error);
        return check_range(f, (double)to->integer, "", error);
    case REAL:
        status = scan_real(text, &to->real);
        if (status != ATTN_OK)
            return status == ATTN_INVALID ? wrong_text(f, text, error) : status;
        return check_range(f, to->real, "", error);
    case STRING:
        to->string = text;
        return check_range(f, (double)strlen(text), "a string of length ", error);
    case INTS:
        break;
    }
    return scan_integers(f, text, to, error);
}

attn_status srv_options_read_query(srv_options *options, const srv_pair *pairs, int count,
                                   bool with_shape, attn_error *error)
{
    *options = (srv_options){0};
    for (int p = 0; p < count; p++) {
        const char *name = pairs[p].name;
        int i = find_path(name);
        if (i < 0 || (!with_shape && strncmp(name, "shape.", 6) == 0))
            return unknown_member(NULL, name, error);
        if (options->values[i].given)
            return attn_error_set(error, ATTN_INVALID, fields[i].path,
                                  "%s stands twice in the query string", fields[i].path);
        attn_status status = scan_value(&fields[i], pairs[p].value, &options->values[i], error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

static void describe_field(srv_text *text, const field_rule *f, const char *name)
{
    static const char *const types[] = {
        [BOOL] = "boolean",  [INT] = "integer", [REAL] = "number",
        [STRING] = "string", [INTS] = "array",
    };
    srv_text_format(text, "\"%s\": {\"type\": \"%s\"", name, types[f->kind]);
    if (f->kind == INTS)
        srv_text_string(text, ", \"items\": {\"type\": \"integer\"");
    if (f->kind == STRING) {
        srv_text_format(text, ", \"minLength\": %.0f, \"maxLength\": %.0f", f->least, f->most);
    } else if (f->kind != BOOL) {
        srv_text_string(text, ", \"minimum\": ");
        srv_text_real(text, f->least);
        srv_text_string(text, ", \"maximum\": ");
        srv_text_real(text, f->most);
    }
    if (f->backends[0])
        srv_text_format(text, ", \"description\": \"used by %s\"", f->backends);
    srv_text_string(text, f->kind == INTS ? "}}" : "}");
}

static void describe_group(srv_text *text, const char *group)
{
    size_t length = strlen(group);
    const char *separator = "";
    srv_text_format(text, ", \"%s\": {\"type\": \"object\", \"properties\": {", group);
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const char *path = fields[i].path;
        if (strncmp(path, group, length) != 0 || path[length] != '.')
            continue;
        srv_text_string(text, separator);
        describe_field(text, &fields[i], path + length + 1);
        separator = ", ";
    }
    srv_text_string(text, "}, \"additionalProperties\": false}");
}

void srv_options_describe(srv_text *text, bool with_shape)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        if (strchr(fields[i].path, '.'))
            continue;
        srv_text_string(text, ", ");
        describe_field(text, &fields[i], fields[i].path);
    }
    describe_group(text, "params");
    describe_group(text, "hints");
    if (with_shape)
        describe_group(text, "shape");
}

void srv_options_free(srv_options *options)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if (fields[i].kind == INTS)
            free(options->values[i].integers.data);
    *options = (srv_options){0};
}

bool srv_options_given(const srv_options *options, srv_field field)
{
    return options->values[field].given;
}

bool srv_options_bool(const srv_options *options, srv_field field, bool fallback)
{
    return options->values[field].given ? options->values[field].boolean : fallback;
}

int64_t srv_options_int(const srv_options *options, srv_field field, int64_t fallback)
{
    return options->values[field].given ? options->values[field].integer : fallback;
}

double srv_options_real(const srv_options *options, srv_field field, double fallback)
{
    return options->values[field].given ? options->values[field].real : fallback;
}

const char *srv_options_string(const srv_options *options, srv_field field, const char *fallback)
{
    return options->values[field].given ? options->values[field].string : fallback;
}

/* Whether `word` is one of the words of `list`. */
static bool in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

attn_status srv_options_check_backend(const srv_options *options, const char *backend,
                                      attn_error *error)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const field_rule *f = &fields[i];
        if (options->values[i].given && f->backends[0] && !in_list(f->backends, backend))
            return attn_error_set(error, ATTN_INVALID, f->path,
                                  "%s is used by %s, not by %s; leave it out", f->path, f->backends,
                                  backend);
    }
    return ATTN_OK;
}
