/* answers.def as JSON schemas. */
#include "server/endpoints/openapi_answers.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum {
    TYPE_BYTES = 32
};

typedef struct member {
    const char *schema, *name, *type;
    bool always;
} member;

static const member members[] = {
#define MEMBER(schema, name, type, always) {#schema, name, type, always},
#include "server/endpoints/answers.def"
#undef MEMBER
    {0},
};

/* "Model[]" with the suffix "[]" is "Model". */
static bool strip(char *type, const char *suffix)
{
    size_t length = strlen(type), end = strlen(suffix);
    bool found = length > end && strcmp(type + length - end, suffix) == 0;
    if (found)
        type[length - end] = '\0';
    return found;
}

void srv_openapi_type(srv_text *text, const char *type)
{
    char inner[TYPE_BYTES];
    snprintf(inner, sizeof inner, "%s", type);
    const char *close = "}";
    if (strip(inner, "?")) {
        srv_text_string(text, "{\"anyOf\": [{\"type\": \"null\"}, ");
        close = "]}";
    } else if (strip(inner, "[]")) {
        srv_text_string(text, "{\"type\": \"array\", \"items\": ");
    } else if (strip(inner, "{}")) {
        srv_text_string(text, "{\"type\": \"object\", \"additionalProperties\": ");
    } else {
        bool plain = islower((unsigned char)inner[0]);
        srv_text_format(
            text, plain ? "{\"type\": \"%s\"}" : "{\"$ref\": \"#/components/schemas/%s\"}", inner);
        return;
    }
    srv_openapi_type(text, inner);
    srv_text_string(text, close);
}

/* The members of one schema, which stand together; returns the first of the next. */
static const member *print_schema(srv_text *text, const member *first)
{
    const member *m, *end = first;
    while (end->schema && strcmp(end->schema, first->schema) == 0)
        end++;
    srv_text_format(text, ",\n\"%s\": {\"type\": \"object\", \"properties\": {", first->schema);
    for (m = first; m < end; m++) {
        srv_text_format(text, "%s\"%s\": ", m > first ? ", " : "", m->name);
        srv_openapi_type(text, m->type);
    }
    srv_text_string(text, "}, \"required\": [");
    const char *separator = "";
    for (m = first; m < end; m++)
        if (m->always) {
            srv_text_format(text, "%s\"%s\"", separator, m->name);
            separator = ", ";
        }
    srv_text_string(text, "]}");
    return end;
}

void srv_openapi_answers(srv_text *text)
{
    for (const member *m = members; m->schema;)
        m = print_schema(text, m);
}
