/* Options out of a query string. */
#include "server/attend/options_rules.h"
#include "server/codec/tensor.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static attn_status wrong_text(const srv_rule *f, const char *text, attn_error *error)
{
    return attn_error_set(
        error, ATTN_INVALID, f->path, "%s: found \"%.40s\", expected %s", f->path, text,
        f->kind == SRV_RULE_INTS ? "integers with commas" : srv_rule_expectations[f->kind]);
}

static attn_status scan_integers(const srv_rule *f, const char *text, srv_value *to,
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
        attn_status status = srv_rule_check_range(f, (double)*value, "", error);
        if (status != ATTN_OK || *at == '\0')
            return status;
    }
}

static attn_status scan_value(const srv_rule *f, const char *text, srv_value *to, attn_error *error)
{
    const char *at = text;
    attn_status status;
    to->given = true;
    switch (f->kind) {
    case SRV_RULE_BOOL:
        to->boolean = strcmp(text, "true") == 0;
        return to->boolean || strcmp(text, "false") == 0 ? ATTN_OK : wrong_text(f, text, error);
    case SRV_RULE_INT:
        if (!scan_integer(&at, &to->integer) || *at)
            return wrong_text(f, text, error);
        return srv_rule_check_range(f, (double)to->integer, "", error);
    case SRV_RULE_REAL:
        status = srv_rule_scan_real(text, &to->real);
        if (status != ATTN_OK)
            return status == ATTN_INVALID ? wrong_text(f, text, error) : status;
        return srv_rule_check_range(f, to->real, "", error);
    case SRV_RULE_STRING:
        to->string = text;
        return srv_rule_check_range(f, (double)strlen(text), "a string of length ", error);
    case SRV_RULE_INTS:
        break;
    }
    return scan_integers(f, text, to, error);
}

attn_status srv_options_read_query(srv_options *options, const srv_pair *pairs, int count,
                                   unsigned routes, attn_error *error)
{
    *options = (srv_options){0};
    for (int p = 0; p < count; p++) {
        const char *name = pairs[p].name;
        if (srv_tensor_find(name) >= 0)
            continue;
        int i = srv_rule_find_path(routes, name);
        if (i < 0)
            return srv_rule_unknown(routes, NULL, name, error);
        if (options->values[i].given)
            return attn_error_set(error, ATTN_INVALID, srv_rules[i].path,
                                  "%s stands twice in the query string", srv_rules[i].path);
        attn_status status = scan_value(&srv_rules[i], pairs[p].value, &options->values[i], error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}
