/* Options as members of a JSON schema, and as parameters of a query string. */
#include "server/attend/options_rules.h"

#include <string.h>

static void describe_words(srv_text *text, const char *const *words)
{
    srv_text_string(text, ", \"enum\": [");
    for (int i = 0; words[i]; i++)
        srv_text_format(text, "%s\"%s\"", i ? ", " : "", words[i]);
    srv_text_string(text, "]");
}

static void describe_range(srv_text *text, const srv_rule *f, const char *least, const char *most)
{
    srv_text_format(text, ", \"%s\": ", least);
    srv_text_real(text, f->least);
    srv_text_format(text, ", \"%s\": ", most);
    srv_text_real(text, f->most);
}

static void describe_field(srv_text *text, srv_field field)
{
    static const char *const types[] = {
        [SRV_RULE_BOOL] = "boolean",  [SRV_RULE_INT] = "integer", [SRV_RULE_REAL] = "number",
        [SRV_RULE_STRING] = "string", [SRV_RULE_INTS] = "array",
    };
    const srv_rule *f = &srv_rules[field];
    const char *const *words = srv_options_words(field);
    srv_text_format(text, "{\"type\": \"%s\"", types[f->kind]);
    if (f->kind == SRV_RULE_INTS)
        srv_text_string(text, ", \"items\": {\"type\": \"integer\"");
    if (words)
        describe_words(text, words);
    else if (f->kind == SRV_RULE_STRING)
        describe_range(text, f, "minLength", "maxLength");
    else if (f->kind != SRV_RULE_BOOL)
        describe_range(text, f, "minimum", "maximum");
    if (f->backends[0])
        srv_text_format(text, ", \"description\": \"used by %s\"", f->backends);
    srv_text_string(text, f->kind == SRV_RULE_INTS ? "}}" : "}");
}

static void describe_member(srv_text *text, srv_field field, const char *name)
{
    srv_text_format(text, "\"%s\": ", name);
    describe_field(text, field);
}

static void describe_group(srv_text *text, unsigned routes, const char *group)
{
    size_t length = strlen(group);
    const char *separator = "";
    srv_text_format(text, ", \"%s\": {\"type\": \"object\", \"properties\": {", group);
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const char *path = srv_rules[i].path;
        if (!(srv_rules[i].routes & routes) || strncmp(path, group, length) != 0 ||
            path[length] != '.')
            continue;
        srv_text_string(text, separator);
        describe_member(text, (srv_field)i, path + length + 1);
        separator = ", ";
    }
    srv_text_string(text, "}, \"additionalProperties\": false}");
}

void srv_options_describe(srv_text *text, unsigned routes)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        if (!(srv_rules[i].routes & routes) || strchr(srv_rules[i].path, '.'))
            continue;
        srv_text_string(text, ", ");
        describe_member(text, (srv_field)i, srv_rules[i].path);
    }
    describe_group(text, routes, "params");
    describe_group(text, routes, "hints");
    if (routes & SRV_FOR_PLAN)
        describe_group(text, routes, "shape");
}

void srv_options_describe_query(srv_text *text, unsigned routes)
{
    const char *separator = "";
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const srv_rule *f = &srv_rules[i];
        if (!(f->routes & routes))
            continue;
        srv_text_format(text, "%s{\"name\": \"%s\", \"in\": \"query\", ", separator, f->path);
        if (f->kind == SRV_RULE_INTS)
            srv_text_string(text, "\"style\": \"form\", \"explode\": false, ");
        srv_text_string(text, "\"schema\": ");
        describe_field(text, (srv_field)i);
        srv_text_string(text, "}");
        separator = ", ";
    }
}
