/* Models in JSON. A backend shows the parameters that it uses, under the names that requests have
 * for them, and as limits what its weights fix. */
#include "server/models/describe.h"

#include <string.h>

static void print_window(srv_text *t, const attn_mix_params *p)
{
    srv_text_string(t, "\"window\": ");
    srv_text_int(t, p->window);
}

/* A stride of 0 is the square root of a length that only a request tells. */
static void print_sparse(srv_text *t, const attn_mix_params *p)
{
    srv_text_format(t, "\"pattern\": \"%s\", \"stride\": ", attn_pattern_names[p->pattern]);
    if (p->stride)
        srv_text_int(t, p->stride);
    else
        srv_text_string(t, "null");
    srv_text_string(t, ", \"summary\": ");
    srv_text_int(t, p->summary);
}

static void print_linformer(srv_text *t, const attn_mix_params *p)
{
    const char *projection =
        p->projection == ATTN_GIVEN ? "given" : attn_projection_names[p->projection];
    srv_text_string(t, "\"k\": ");
    srv_text_int(t, p->k);
    srv_text_format(t, ", \"projection\": \"%s\"", projection);
    if (p->projection != ATTN_GAUSSIAN)
        return;
    srv_text_string(t, ", \"seed\": ");
    srv_text_int(t, (int64_t)p->seed);
}

static void print_performer(srv_text *t, const attn_mix_params *p)
{
    srv_text_string(t, "\"features\": ");
    srv_text_int(t, p->features);
    srv_text_format(t, ", \"orthogonal\": %s, \"norm\": \"%s\", \"seed\": ",
                    p->orthogonal ? "true" : "false", attn_norm_names[p->norm]);
    srv_text_int(t, (int64_t)p->seed);
}

static const struct {
    const char *backend;
    void (*print)(srv_text *text, const attn_mix_params *params);
} printers[] = {
    {"window", print_window},       {"hybrid", print_window},       {"sparse", print_sparse},
    {"linformer", print_linformer}, {"performer", print_performer},
};

static void print_limits(srv_text *t, const attn_mix_params *p)
{
    srv_text_string(t, "\"k\": ");
    srv_text_int(t, p->k);
    srv_text_string(t, ", \"seq_len\": ");
    srv_text_int(t, p->projection_length);
}

static void print_backend(srv_text *t, const attn_model_backend *backend)
{
    srv_text_string(t, "{\"name\": ");
    srv_text_json(t, backend->name);
    srv_text_format(t, ", \"trained\": %s, \"params\": {", backend->trained ? "true" : "false");
    for (size_t i = 0; i < sizeof printers / sizeof *printers; i++)
        if (strcmp(printers[i].backend, backend->name) == 0)
            printers[i].print(t, &backend->mix);
    srv_text_string(t, "}, \"limits\": {");
    if (strcmp(backend->name, "linformer") == 0 && backend->mix.projection == ATTN_GIVEN)
        print_limits(t, &backend->mix);
    srv_text_string(t, "}}");
}

static void print_list(srv_text *t, const char *name, const char *const *list, int count)
{
    srv_text_format(t, ", \"%s\": [", name);
    for (int i = 0; i < count; i++) {
        srv_text_string(t, i ? ", " : "");
        srv_text_json(t, list[i]);
    }
    srv_text_string(t, "]");
}

static void print_sizes(srv_text *t, const attn_model_info *info)
{
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"hidden_size", info->hidden},
                 {"layers", info->layers},
                 {"heads", info->heads},
                 {"kv_heads", info->kv_heads},
                 {"head_dim", info->head_dim}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        srv_text_format(t, ", \"%s\": ", sizes[i].name);
        srv_text_int(t, sizes[i].value);
    }
}

static void print_info(srv_text *t, const attn_model_info *info)
{
    static const char *const causal[] = {[ATTN_CAUSAL_NEVER] = "false",
                                         [ATTN_CAUSAL_ALWAYS] = "true",
                                         [ATTN_CAUSAL_EITHER] = "\"any\""};
    srv_text_format(t, ", \"type\": \"%s\"", info->type);
    print_sizes(t, info);
    srv_text_format(t, ", \"causal\": %s, \"backends\": [", causal[info->causal]);
    for (int i = 0; i < info->backend_count; i++) {
        srv_text_string(t, i ? ", " : "");
        print_backend(t, &info->backends[i]);
    }
    srv_text_string(t, "]");
    print_list(t, "adapters", info->adapters, info->adapter_count);
    srv_text_format(t, ", \"bytes\": {\"mapped\": %zu, \"owned\": %zu}", info->mapped_bytes,
                    info->owned_bytes);
    print_list(t, "warnings", info->warnings, info->warning_count);
}

void srv_model_describe(srv_text *t, const srv_model_status *status)
{
    srv_text_string(t, "{\"name\": ");
    srv_text_json(t, status->name);
    srv_text_format(t, ", \"state\": \"%s\", \"reason\": ", srv_model_state_name(status->state));
    srv_text_json(t, status->reason);
    if (status->info)
        print_info(t, status->info);
    srv_text_string(t, "}");
}
