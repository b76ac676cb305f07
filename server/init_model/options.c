/* The table of options.def, and what no single flag's range can tell. */
#include "server/init_model/options.h"

#include "attn/nearest.h"
#include "server/flags.h"

#include <string.h>

static const char *backend_at(int index)
{
    return attn_backend_names[index];
}

static attn_status unknown_backend(const srv_flags *flags, const srv_flag *flag, const char *item,
                                   attn_error *error)
{
    const char *nearest = attn_nearest(item, backend_at);
    return attn_error_set(error, ATTN_INVALID, flag->name, "%s: unknown backend \"%.40s\"; %s%s%s",
                          flags->command, item, nearest ? "the nearest is \"" : "attnd --help",
                          nearest ? nearest : " lists those there are", nearest ? "\"" : "");
}

static attn_status read_names(const srv_flags *flags, const srv_flag *flag, const char *list,
                              void *member, attn_error *error)
{
    srv_init_NAMES *names = member;
    char item[64];
    names->count = 0;
    while (srv_flag_next_item(&list, item)) {
        attn_backend backend;
        if (!attn_backend_find(item, &backend))
            return unknown_backend(flags, flag, item, error);
        if (names->count == ATTN_UNTRAINED_MIXERS_MAX)
            return attn_error_set(error, ATTN_INVALID, flag->name,
                                  "%s: --backends has more than %d values", flags->command,
                                  ATTN_UNTRAINED_MIXERS_MAX);
        names->value[names->count++] = backend;
    }
    return ATTN_OK;
}

static attn_status read_causal(const srv_flags *flags, const srv_flag *flag, const char *text,
                               void *member, attn_error *error)
{
    static const char *const words[] = {[SRV_INIT_NEVER] = "false",
                                        [SRV_INIT_ALWAYS] = "true",
                                        [SRV_INIT_EITHER] = "any",
                                        [SRV_INIT_UNSAID] = ""};
    for (int i = SRV_INIT_NEVER; i <= SRV_INIT_UNSAID; i++) {
        if (strcmp(text, words[i]) == 0) {
            *(srv_init_CAUSAL *)member = (srv_init_CAUSAL)i;
            return ATTN_OK;
        }
    }
    return attn_error_set(error, ATTN_INVALID, flag->name,
                          "%s: --causal is \"%.40s\", expected false, true or any", flags->command,
                          text);
}

#define READ_NAMES  read_names
#define READ_CAUSAL read_causal
#define READ_INT    srv_flag_int
#define READ_SWITCH srv_flag_switch

static const srv_flag list[] = {
#define OPTION(member, kind, fallback, least, most, help) \
    {#member, fallback, least, most, help, offsetof(srv_init_options, member), READ_##kind},
#include "server/init_model/options.def"
#undef OPTION
};
enum {
    FLAGS = sizeof list / sizeof *list
};

static const char *name_at(int index)
{
    return index < FLAGS ? list[index].name : NULL;
}

static const srv_flags init_flags = {"init-model", FLAGS, list, name_at};

static bool lists(const srv_init_NAMES *names, attn_backend backend, int before)
{
    for (int i = 0; i < before; i++)
        if (names->value[i] == backend)
            return true;
    return false;
}

/* Linformer mixes all positions and has no causal form, so an empty list leaves it out then. */
static void fill_in(srv_init_options *o)
{
    bool stack = o->layers > 1;
    if (o->causal == SRV_INIT_UNSAID)
        o->causal = stack ? SRV_INIT_ALWAYS : SRV_INIT_EITHER;
    if (o->kv_heads == 0)
        o->kv_heads = o->heads;
    if (o->backends.count > 0)
        return;
    if (stack) {
        o->backends = (srv_init_NAMES){2, {ATTN_BACKEND_MAMBA, ATTN_BACKEND_WINDOW}};
        return;
    }
    for (int b = 0; b < ATTN_BACKENDS; b++)
        if (b != ATTN_BACKEND_LINFORMER || o->causal != SRV_INIT_ALWAYS)
            o->backends.value[o->backends.count++] = (attn_backend)b;
}

static attn_status check_sizes(const srv_init_options *o, attn_error *error)
{
    if (o->dim % o->heads != 0)
        return attn_error_set(
            error, ATTN_INVALID, "heads",
            "init-model: --heads is %lld, which does not divide the %lld of --dim",
            (long long)o->heads, (long long)o->dim);
    if (o->heads % o->kv_heads != 0)
        return attn_error_set(error, ATTN_INVALID, "kv_heads",
                              "init-model: --kv-heads is %lld, which does not divide the %lld of "
                              "--heads",
                              (long long)o->kv_heads, (long long)o->heads);
    if (o->k > o->seq_len)
        return attn_error_set(error, ATTN_INVALID, "k",
                              "init-model: --k is %lld, more than the %lld positions of --seq-len",
                              (long long)o->k, (long long)o->seq_len);
    return ATTN_OK;
}

static attn_status check_backends(const srv_init_options *o, attn_error *error)
{
    const srv_init_NAMES *names = &o->backends;
    bool stack = o->layers > 1;
    if (o->causal == SRV_INIT_ALWAYS && lists(names, ATTN_BACKEND_LINFORMER, names->count))
        return attn_error_set(error, ATTN_INVALID, "backends",
                              "init-model: linformer has no causal form; leave it out of "
                              "--backends, or say --causal false");
    if (stack && lists(names, ATTN_BACKEND_HYBRID, names->count))
        return attn_error_set(error, ATTN_INVALID, "backends",
                              "init-model: in a stack hybrid is two layers; say mamba,window in "
                              "--backends");
    if (stack && names->count > o->layers)
        return attn_error_set(error, ATTN_INVALID, "backends",
                              "init-model: --backends lists %d mixers for the %lld of --layers",
                              names->count, (long long)o->layers);
    for (int i = 0; !stack && i < names->count; i++)
        if (lists(names, names->value[i], i))
            return attn_error_set(error, ATTN_INVALID, "backends",
                                  "init-model: --backends lists %s twice; of a single layer each "
                                  "is there once",
                                  attn_backend_names[names->value[i]]);
    return ATTN_OK;
}

attn_status srv_init_options_read(srv_init_options *options, char *const *arguments,
                                  attn_error *error)
{
    attn_status status = srv_flags_read(&init_flags, options, &options->folder, arguments, error);
    if (status != ATTN_OK)
        return status;
    if (!options->folder || !*options->folder)
        return attn_error_set(error, ATTN_INVALID, NULL,
                              "init-model: which folder? Try attnd init-model models/demo");
    fill_in(options);
    status = check_sizes(options, error);
    return status == ATTN_OK ? check_backends(options, error) : status;
}

void srv_init_options_help(FILE *out)
{
    srv_flags_help(&init_flags, out);
}
