/* Options as members of a JSON schema. */
#include "server/attend/options_rules.h"

#include <string.h>

static void describe_field(srv_text *text, const srv_rule *f, const char *name)
{
    static const char *const types[] = {
        [SRV_RULE_BOOL] = "boolean",  [SRV_RULE_INT] = "integer", [SRV_RULE_REAL] = "number",
        [SRV_RULE_STRING] = "string", [SRV_RULE_INTS] = "array",
    };
    srv_text_format(text, "\"%s\": {\"type\": \"%s\"", name, types[f->kind]);
    if (f->kind == SRV_RULE_INTS)
        srv_text_string(text, ", \"items\": {\"type\": \"integer\"");
    if (f->kind == SRV_RULE_STRING) {
        srv_text_format(text, ", \"minLength\": %.0f, \"maxLength\": %.0f", f->least, f->most);
    } else if (f->kind != SRV_RULE_BOOL) {
        srv_text_string(text, ", \"minimum\": ");
        srv_text_real(text, f->least);
        srv_text_string(text, ", \"maximum\": ");
        srv_text_real(text, f->most);
    }
    if (f->backends[0])
        srv_text_format(text, ", \"description\": \"used by %s\"", f->backends);
    srv_text_string(text, f->kind == SRV_RULE_INTS ? "}}" : "}");
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
        describe_field(text, &srv_rules[i], path + length + 1);
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
        describe_field(text, &srv_rules[i], srv_rules[i].path);
    }
    describe_group(text, routes, "params");
    describe_group(text, routes, "hints");
    if (routes & SRV_FOR_PLAN)
        describe_group(text, routes, "shape");
}
