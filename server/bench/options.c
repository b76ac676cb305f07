/* The table of options.def, and the two kinds of lists in it. */
#include "server/bench/options.h"

#include "server/flags.h"
#include "server/nearest.h"

static const char *backend_at(int index)
{
    return attn_mixers[index] ? attn_mixers[index]->name : NULL;
}

static attn_status too_many(const srv_flag *flag, int most, attn_error *error)
{
    return attn_error_set(error, ATTN_INVALID, flag->name, "bench: --%s has more than %d values",
                          flag->name, most);
}

static attn_status read_sizes(const srv_flags *flags, const srv_flag *flag, const char *list,
                              void *member, attn_error *error)
{
    srv_bench_SIZES *sizes = member;
    char item[64];
    attn_status status = ATTN_OK;
    sizes->count = 0;
    while (status == ATTN_OK && srv_flag_next_item(&list, item)) {
        if (sizes->count == SRV_BENCH_MOST_SIZES)
            return too_many(flag, SRV_BENCH_MOST_SIZES, error);
        status = srv_flag_int(flags, flag, item, &sizes->value[sizes->count++], error);
    }
    return status == ATTN_OK && sizes->count == 0
               ? srv_flag_int(flags, flag, "", sizes->value, error)
               : status;
}

/* An empty list stands for every backend that runs without a model. */
static attn_status read_names(const srv_flags *flags, const srv_flag *flag, const char *list,
                              void *member, attn_error *error)
{
    (void)flags;
    srv_bench_NAMES *names = member;
    char item[64];
    names->count = 0;
    for (int i = 0; !*list && attn_mixers[i] && names->count < SRV_BENCH_MOST_BACKENDS; i++)
        if (!(attn_mixers[i]->traits & ATTN_NEEDS_WEIGHTS))
            names->value[names->count++] = attn_mixers[i];
    while (srv_flag_next_item(&list, item)) {
        const attn_mixer *mixer = attn_mixer_find(item);
        if (!mixer)
            return attn_error_set(error, ATTN_INVALID, flag->name,
                                  "bench: unknown backend \"%.40s\"; the nearest is \"%s\"", item,
                                  srv_nearest(item, backend_at));
        if (mixer->traits & ATTN_NEEDS_WEIGHTS)
            return attn_error_set(error, ATTN_INVALID, flag->name,
                                  "bench: %s runs only inside a loaded model", item);
        if (names->count == SRV_BENCH_MOST_BACKENDS)
            return too_many(flag, SRV_BENCH_MOST_BACKENDS, error);
        names->value[names->count++] = mixer;
    }
    return ATTN_OK;
}

#define READ_SIZES  read_sizes
#define READ_NAMES  read_names
#define READ_INT    srv_flag_int
#define READ_SWITCH srv_flag_switch
#define READ_TEXT   srv_flag_text

static const srv_flag list[] = {
#define OPTION(member, kind, fallback, least, most, help) \
    {#member, fallback, least, most, help, offsetof(srv_bench_options, member), READ_##kind},
#include "server/bench/options.def"
#undef OPTION
};
enum {
    FLAGS = sizeof list / sizeof *list
};

static const char *name_at(int index)
{
    return index < FLAGS ? list[index].name : NULL;
}

static const srv_flags bench_flags = {"bench", FLAGS, list, name_at};

attn_status srv_bench_options_read(srv_bench_options *options, char *const *arguments,
                                   attn_error *error)
{
    attn_status status = srv_flags_read(&bench_flags, options, NULL, arguments, error);
    if (status != ATTN_OK)
        return status;
    if (options->kv_heads == 0)
        options->kv_heads = options->heads;
    if (options->heads % options->kv_heads == 0)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "kv_heads",
                          "bench: --kv-heads is %lld, which does not divide the %lld of --heads",
                          (long long)options->kv_heads, (long long)options->heads);
}

void srv_bench_options_help(FILE *out)
{
    srv_flags_help(&bench_flags, out);
}
