/* One table of flags; a value is text first and is read by its kind. */
#include "server/bench/options.h"

#include "server/nearest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    SIZES,
    NAMES,
    INT,
    SWITCH,
    TEXT,
} kind;

typedef struct flag {
    const char *name;
    kind kind;
    const char *fallback;
    long long least, most;
    const char *help;
    size_t offset;
} flag;

static const flag flags[] = {
#define OPTION(member, kind, fallback, least, most, help) \
    {#member, kind, fallback, least, most, help, offsetof(srv_bench_options, member)},
#include "server/bench/options.def"
#undef OPTION
};
enum {
    FLAGS = sizeof flags / sizeof *flags
};

static const char *flag_at(int index)
{
    return index < FLAGS ? flags[index].name : NULL;
}

static const char *backend_at(int index)
{
    return attn_mixers[index] ? attn_mixers[index]->name : NULL;
}

/* "kv_heads" as "--kv-heads". */
static void spell(char spelt[32], const char *name)
{
    snprintf(spelt, 32, "--%s", name);
    for (char *c = spelt + 2; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

static attn_status read_int(const flag *f, const char *text, int64_t *value, attn_error *error)
{
    char spelt[32], *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *value = number;
    if (end != text && *end == '\0' && errno == 0 && number >= f->least && number <= f->most)
        return ATTN_OK;
    spell(spelt, f->name);
    return attn_error_set(error, ATTN_INVALID, f->name,
                          "bench: %s is \"%.40s\", expected a number from %lld to %lld", spelt,
                          text, f->least, f->most);
}

/* Cut the next name off a list with commas. False at its end, or when a name does not fit. */
static bool next_item(const char **list, char item[64])
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

static attn_status too_many(const flag *f, int most, attn_error *error)
{
    return attn_error_set(error, ATTN_INVALID, f->name, "bench: --%s has more than %d values",
                          f->name, most);
}

static attn_status read_sizes(const flag *f, const char *list, srv_bench_SIZES *sizes,
                              attn_error *error)
{
    char item[64];
    attn_status status = ATTN_OK;
    sizes->count = 0;
    while (status == ATTN_OK && next_item(&list, item)) {
        if (sizes->count == SRV_BENCH_MOST_SIZES)
            return too_many(f, SRV_BENCH_MOST_SIZES, error);
        status = read_int(f, item, &sizes->value[sizes->count++], error);
    }
    return status == ATTN_OK && sizes->count == 0 ? read_int(f, "", sizes->value, error) : status;
}

/* An empty list stands for every backend that runs without a model. */
static attn_status read_names(const flag *f, const char *list, srv_bench_NAMES *names,
                              attn_error *error)
{
    char item[64];
    names->count = 0;
    for (int i = 0; !*list && attn_mixers[i] && names->count < SRV_BENCH_MOST_BACKENDS; i++)
        if (!(attn_mixers[i]->traits & ATTN_NEEDS_WEIGHTS))
            names->value[names->count++] = attn_mixers[i];
    while (next_item(&list, item)) {
        const attn_mixer *mixer = attn_mixer_find(item);
        if (!mixer)
            return attn_error_set(error, ATTN_INVALID, f->name,
                                  "bench: unknown backend \"%.40s\"; the nearest is \"%s\"", item,
                                  srv_nearest(item, backend_at));
        if (mixer->traits & ATTN_NEEDS_WEIGHTS)
            return attn_error_set(error, ATTN_INVALID, f->name,
                                  "bench: %s runs only inside a loaded model", item);
        if (names->count == SRV_BENCH_MOST_BACKENDS)
            return too_many(f, SRV_BENCH_MOST_BACKENDS, error);
        names->value[names->count++] = mixer;
    }
    return ATTN_OK;
}

static attn_status set(srv_bench_options *options, const flag *f, const char *text,
                       attn_error *error)
{
    void *member = (char *)options + f->offset;
    switch (f->kind) {
    case SIZES:
        return read_sizes(f, text, member, error);
    case NAMES:
        return read_names(f, text, member, error);
    case INT:
        return read_int(f, text, member, error);
    case SWITCH:
        *(bool *)member = *text != '\0';
        return ATTN_OK;
    case TEXT:
        *(const char **)member = text;
        return ATTN_OK;
    }
    return ATTN_INTERNAL;
}

static const flag *find(const char *typed)
{
    char spelt[32];
    for (int i = 0; i < FLAGS; i++) {
        spell(spelt, flags[i].name);
        if (strcmp(typed, spelt) == 0)
            return &flags[i];
    }
    return NULL;
}

static attn_status unknown(const char *typed, attn_error *error)
{
    char nearest[32];
    const char *name = typed + strspn(typed, "-");
    spell(nearest, srv_nearest(name, flag_at));
    return attn_error_set(error, ATTN_INVALID, NULL,
                          "bench: unknown flag \"%.40s\"; the nearest is %s", typed, nearest);
}

static attn_status check_heads(srv_bench_options *options, attn_error *error)
{
    if (options->kv_heads == 0)
        options->kv_heads = options->heads;
    if (options->heads % options->kv_heads == 0)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "kv_heads",
                          "bench: --kv-heads is %lld, which does not divide the %lld of --heads",
                          (long long)options->kv_heads, (long long)options->heads);
}

attn_status srv_bench_options_read(srv_bench_options *options, char *const *arguments,
                                   attn_error *error)
{
    attn_status status = ATTN_OK;
    for (int i = 0; i < FLAGS && status == ATTN_OK; i++)
        status = set(options, &flags[i], flags[i].fallback, error);
    for (; *arguments && status == ATTN_OK; arguments++) {
        const flag *f = find(*arguments);
        if (!f)
            return unknown(*arguments, error);
        if (f->kind == SWITCH)
            status = set(options, f, "yes", error);
        else if (!arguments[1])
            return attn_error_set(error, ATTN_INVALID, f->name, "bench: %s needs a value",
                                  *arguments);
        else
            status = set(options, f, *++arguments, error);
    }
    return status == ATTN_OK ? check_heads(options, error) : status;
}

void srv_bench_options_help(FILE *out)
{
    for (int i = 0; i < FLAGS; i++) {
        char spelt[32];
        spell(spelt, flags[i].name);
        fprintf(out, "  %-14s %s", spelt, flags[i].help);
        fprintf(out, *flags[i].fallback ? " [%s]\n" : "\n", flags[i].fallback);
    }
}
