/* One table of flags for each command that is not configured like the daemon. */
#include "server/flags.h"

#include "attn/nearest.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* "kv_heads" as "--kv-heads". */
static void spell(char spelt[32], const char *name)
{
    snprintf(spelt, 32, "--%s", name);
    for (char *c = spelt + 2; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

attn_status srv_flag_int(const srv_flags *flags, const srv_flag *flag, const char *text,
                         void *member, attn_error *error)
{
    char spelt[32], *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *(int64_t *)member = number;
    if (end != text && *end == '\0' && errno == 0 && number >= flag->least && number <= flag->most)
        return ATTN_OK;
    spell(spelt, flag->name);
    return attn_error_set(error, ATTN_INVALID, flag->name,
                          "%s: %s is \"%.40s\", expected a number from %lld to %lld",
                          flags->command, spelt, text, flag->least, flag->most);
}

attn_status srv_flag_switch(const srv_flags *flags, const srv_flag *flag, const char *text,
                            void *member, attn_error *error)
{
    (void)flags, (void)flag, (void)error;
    *(bool *)member = *text != '\0';
    return ATTN_OK;
}

attn_status srv_flag_text(const srv_flags *flags, const srv_flag *flag, const char *text,
                          void *member, attn_error *error)
{
    (void)flags, (void)flag, (void)error;
    *(const char **)member = text;
    return ATTN_OK;
}

bool srv_flag_next_item(const char **list, char item[64])
{
    size_t length = strcspn(*list, ",");
    if (**list == '\0')
        return false;
    snprintf(item, 64, "%.*s", (int)(length < 63 ? length : 63), *list);
    *list += length;
    if (**list == ',')
        ++*list;
    return true;
}

static attn_status set(const srv_flags *flags, const srv_flag *flag, void *options,
                       const char *text, attn_error *error)
{
    return flag->read(flags, flag, text, (char *)options + flag->offset, error);
}

static const srv_flag *find(const srv_flags *flags, const char *typed)
{
    char spelt[32];
    for (int i = 0; i < flags->count; i++) {
        spell(spelt, flags->list[i].name);
        if (strcmp(typed, spelt) == 0)
            return &flags->list[i];
    }
    return NULL;
}

static attn_status unknown(const srv_flags *flags, const char *typed, attn_error *error)
{
    char spelt[32];
    if (*typed != '-')
        return attn_error_set(error, ATTN_INVALID, NULL,
                              "%s: unknown flag \"%.40s\"; a flag begins with --, and a switch "
                              "takes no value",
                              flags->command, typed);
    const char *nearest = attn_nearest(typed + strspn(typed, "-"), flags->name_at);
    if (!nearest)
        return attn_error_set(error, ATTN_INVALID, NULL,
                              "%s: unknown flag \"%.40s\"; attnd %s --help lists those there are",
                              flags->command, typed, flags->command);
    spell(spelt, nearest);
    return attn_error_set(error, ATTN_INVALID, NULL,
                          "%s: unknown flag \"%.40s\"; the nearest is %s", flags->command, typed,
                          spelt);
}

/* Read the flag at *arguments and leave *arguments at the last of what it took. */
static attn_status read_flag(const srv_flags *flags, void *options, char *const **arguments,
                             attn_error *error)
{
    const char *typed = **arguments;
    const srv_flag *flag = find(flags, typed);
    if (!flag)
        return unknown(flags, typed, error);
    if (flag->read == srv_flag_switch)
        return set(flags, flag, options, "yes", error);
    if (!(*arguments)[1])
        return attn_error_set(error, ATTN_INVALID, flag->name, "%s: %s needs a value",
                              flags->command, typed);
    return set(flags, flag, options, *++*arguments, error);
}

attn_status srv_flags_read(const srv_flags *flags, void *options, const char **operand,
                           char *const *arguments, attn_error *error)
{
    attn_status status = ATTN_OK;
    for (int i = 0; i < flags->count && status == ATTN_OK; i++)
        status = set(flags, &flags->list[i], options, flags->list[i].fallback, error);
    if (operand)
        *operand = NULL;
    for (; *arguments && status == ATTN_OK; arguments++) {
        if (operand && !*operand && **arguments != '-')
            *operand = *arguments;
        else
            status = read_flag(flags, options, &arguments, error);
    }
    return status;
}

void srv_flags_help(const srv_flags *flags, FILE *out)
{
    for (const srv_flag *flag = flags->list; flag < flags->list + flags->count; flag++) {
        char spelt[32];
        spell(spelt, flag->name);
        fprintf(out, "  %-14s %s", spelt, flag->help);
        fprintf(out, *flag->fallback ? " [%s]\n" : "\n", flag->fallback);
    }
}
