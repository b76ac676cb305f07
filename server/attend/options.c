/* Options once they are read. */
#include "server/attend/options_rules.h"

#include <stdlib.h>
#include <string.h>

void srv_options_free(srv_options *options)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        if (srv_rules[i].kind == SRV_RULE_INTS)
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
        const srv_rule *f = &srv_rules[i];
        if (!options->values[i].given || !f->backends[0] || in_list(f->backends, backend))
            continue;
        const char *second = strchr(f->backends, ' ');
        int length = (int)strcspn(f->backends, " ");
        return attn_error_set(error, ATTN_INVALID, f->path,
                              "%s is used by %.*s%s%s, not by %s; leave it out", f->path, length,
                              f->backends, second ? " and" : "", second ? second : "", backend);
    }
    return ATTN_OK;
}
