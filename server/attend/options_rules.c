/* The table of fields and its sentences. */
#include "server/attend/options_rules.h"

#include "attn/nearest.h"
#include "attn/plan.h"
#include "server/codec/tensor.h"

#include <stdio.h>
#include <string.h>

const srv_rule srv_rules[SRV_FIELD_COUNT] = {
#define FIELD(id, path, kind, least, most, backends, routes) \
    {path, SRV_RULE_##kind, least, most, backends, SRV_FOR_##routes},
#include "server/attend/fields.def"
#undef FIELD
};

static const char *const backends[] = {"auto",
#define BACKEND(code, name, parts) name,
#include "attn/backends.def"
#undef BACKEND
                                       NULL};

const char *const *srv_options_words(srv_field field)
{
    static const char *const *const words[SRV_FIELD_COUNT] = {
        [SRV_FIELD_BACKEND] = backends,
        [SRV_FIELD_PATTERN] = attn_pattern_names,
        [SRV_FIELD_PROJECTION] = attn_projection_names,
        [SRV_FIELD_NORM] = attn_norm_names,
    };
    return words[field];
}

const char *const srv_rule_expectations[] = {
    [SRV_RULE_BOOL] = "true or false",
    [SRV_RULE_INT] = "an integer",
    [SRV_RULE_REAL] = "a number",
    [SRV_RULE_STRING] = "a string",
    [SRV_RULE_INTS] = "an array of integers",
};

const char *srv_rule_print_number(char to[32], double value)
{
    srv_text text = srv_text_lend(to, 32);
    srv_text_real(&text, value);
    return to;
}

attn_status srv_rule_check_range(const srv_rule *f, double value, const char *what,
                                 attn_error *error)
{
    if (value >= f->least && value <= f->most)
        return ATTN_OK;
    char found[32], least[32], most[32];
    return attn_error_set(error, ATTN_INVALID, f->path, "%s: found %s%s, expected %s to %s",
                          f->path, what, srv_rule_print_number(found, value),
                          srv_rule_print_number(least, f->least),
                          srv_rule_print_number(most, f->most));
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
int srv_rule_find_path(unsigned routes, const char *path)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if ((srv_rules[i].routes & routes) && strcmp(srv_rules[i].path, path) == 0)
            return i;
    return -1;
}

int srv_rule_find(unsigned routes, const char *group, const char *member)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if ((srv_rules[i].routes & routes) && same_path(srv_rules[i].path, group, member))
            return i;
    return -1;
}

/* The members that exist in `group`, or at the top level, as a sentence lists them. */
static void list_members(unsigned routes, const char *group, char *text, size_t size)
{
    size_t skip = group ? strlen(group) + 1 : 0, used = 0;
    text[0] = '\0';
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const char *path = srv_rules[i].path;
        bool inside = group ? strncmp(path, group, skip - 1) == 0 && path[skip - 1] == '.'
                            : strchr(path, '.') == NULL;
        if (inside && (srv_rules[i].routes & routes) && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", path + skip);
    }
}

/* What stands behind the last dot, and so what people remember. */
static const char *member_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* The field or tensor that a wrong path may mean, or NULL. */
static const char *find_nearest(unsigned routes, const char *path)
{
    const char *nearest = NULL;
    int least = ATTN_NOT_NEAR;
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if ((srv_rules[i].routes & routes) &&
            attn_nearer(member_of(path), member_of(srv_rules[i].path), &least))
            nearest = srv_rules[i].path;
    for (int i = 0; i < SRV_TENSOR_NAMES; i++)
        if (attn_nearer(member_of(path), srv_tensor_names[i], &least))
            nearest = srv_tensor_names[i];
    return nearest;
}

attn_status srv_rule_unknown(unsigned routes, const char *group, const char *member,
                             attn_error *error)
{
    char path[64], known[200];
    snprintf(path, sizeof path, "%s%s%.40s", group ? group : "", group ? "." : "", member);
    list_members(routes, group, known, sizeof known);
    const char *nearest = find_nearest(routes, path);
    return attn_error_set(
        error, ATTN_INVALID, path, "%s is not a known field%s%s; known %s are %s%s", path,
        nearest ? "; the nearest is " : "", nearest ? nearest : "",
        group ? "here" : "beside the tensors q, k, v, e, f, omega, input and key_mask", known,
        group ? "" : ", params, hints");
}
