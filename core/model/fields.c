/* Reading a JSON object by a table. */
#include "model/fields.h"

#include "attn/nearest.h"

#include <stdio.h>
#include <string.h>

enum {
    PROBLEM_BYTES = 96
};

static attn_status read_bool(const attn_node *node, bool *value)
{
    *value = attn_node_is_bool(node, true);
    if (!*value && !attn_node_is_bool(node, false))
        return attn_node_refuse(node, ATTN_INVALID, "true or false");
    return ATTN_OK;
}

static attn_status read_switch(const attn_node *node, int *value)
{
    bool on;
    attn_status status = read_bool(node, &on);
    *value = on ? 2 : 1;
    return status;
}

static attn_status read_field(const attn_node *node, const attn_field *field, void *to)
{
    switch (field->kind) {
    case ATTN_FIELD_INT:
        return attn_node_int(node, (int64_t)field->least, (int64_t)field->most, to);
    case ATTN_FIELD_REAL:
        return attn_node_real(node, field->least, field->most, to);
    case ATTN_FIELD_BOOL:
        return read_bool(node, to);
    case ATTN_FIELD_SWITCH:
        return read_switch(node, to);
    case ATTN_FIELD_CHOICE:
        return attn_node_choice(node, field->names, to);
    case ATTN_FIELD_OTHER:
        break;
    }
    return ATTN_OK;
}

attn_status attn_fields_read(const attn_node *object, const attn_field *fields, unsigned where,
                             void *to)
{
    attn_status status = ATTN_OK;
    for (const attn_field *field = fields; field->key && status == ATTN_OK; field++) {
        attn_node node = attn_node_member(object, field->key);
        if ((field->where & where) && node.value)
            status = read_field(&node, field, (char *)to + field->offset);
    }
    return status;
}

static bool is_field(const char *key, const attn_field *fields, unsigned where)
{
    for (const attn_field *field = fields; field->key; field++)
        if ((field->where & where) && strcmp(field->key, key) == 0)
            return true;
    return false;
}

static void warn_unknown(const attn_node *node, const attn_field *fields, unsigned where)
{
    const char *nearest = NULL;
    int least = ATTN_NOT_NEAR;
    for (const attn_field *field = fields; field->key; field++)
        if ((field->where & where) && attn_nearer(node->key, field->key, &least))
            nearest = field->key;
    char problem[PROBLEM_BYTES];
    snprintf(problem, sizeof problem, "is a key that is not known, and ignored%s%s",
             nearest ? "; the nearest is " : "", nearest ? nearest : "");
    attn_node_warn(node, problem);
}

void attn_fields_warn(const attn_node *object, const attn_field *fields, unsigned where)
{
    for (attn_node node = attn_node_next(object, NULL); node.key;
         node = attn_node_next(object, &node))
        if (!is_field(node.key, fields, where))
            warn_unknown(&node, fields, where);
}
