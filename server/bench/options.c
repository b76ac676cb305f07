/* The table of options.def, and its kind of list. */
#include "server/bench/options.h"

#include "server/flags.h"

static attn_status read_sizes(const srv_flags *flags, const srv_flag *flag, const char *list,
                              void *member, attn_error *error)
{
    srv_bench_SIZES *sizes = member;
    char item[64];
    attn_status status = ATTN_OK;
    sizes->count = 0;
    while (status == ATTN_OK && srv_flag_next_item(&list, item)) {
        if (sizes->count == SRV_BENCH_MOST_SIZES)
            return attn_error_set(error, ATTN_INVALID, flag->name,
                                  "bench: --%s has more than %d values", flag->name,
                                  SRV_BENCH_MOST_SIZES);
        status = srv_flag_int(flags, flag, item, &sizes->value[sizes->count++], error);
    }
    return status == ATTN_OK && sizes->count == 0
               ? srv_flag_int(flags, flag, "", sizes->value, error)
               : status;
}

#define READ_SIZES  read_sizes
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
