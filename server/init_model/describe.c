/* config.json, laid out for people: a backend or a layer on each line. */
#include "server/init_model/describe.h"

/* The backend's own keys, each with the comma before it. In a stack "norm" would be the layer's,
 * and hybrid has Mamba's sizes from beside it or from the tensors. */
static void add_params(srv_text *text, const srv_init_options *o, attn_backend backend)
{
    switch (backend) {
    case ATTN_BACKEND_WINDOW:
    case ATTN_BACKEND_HYBRID:
        srv_text_format(text, ", \"window\": %lld", (long long)o->window);
        break;
    case ATTN_BACKEND_SPARSE:
        srv_text_string(text, ", \"pattern\": \"strided\"");
        break;
    case ATTN_BACKEND_LINFORMER:
        srv_text_format(text, ", \"k\": %lld, \"seq_len\": %lld", (long long)o->k,
                        (long long)o->seq_len);
        break;
    case ATTN_BACKEND_PERFORMER:
        srv_text_format(text, ", \"features\": %lld, \"seed\": %lld", (long long)o->features,
                        (long long)o->seed);
        break;
    case ATTN_BACKEND_MAMBA:
        srv_text_format(text,
                        ", \"d_state\": %d, \"d_conv\": %d, \"expand\": %d, \"dt_rank\": %lld",
                        ATTN_UNTRAINED_D_STATE, ATTN_UNTRAINED_D_CONV, ATTN_UNTRAINED_EXPAND,
                        (long long)attn_untrained_dt_rank(o->dim));
        break;
    case ATTN_BACKEND_EXACT:
    case ATTN_BACKENDS:
        break;
    }
}

static void add_backends(srv_text *text, const srv_init_options *o)
{
    srv_text_string(text, "  \"backends\": {");
    for (int i = 0; i < o->backends.count; i++) {
        attn_backend backend = o->backends.value[i];
        srv_text_format(text, "%s\n    \"%s\": {\"trained\": false", i ? "," : "",
                        attn_backend_names[backend]);
        add_params(text, o, backend);
        srv_text_string(text, "}");
    }
    srv_text_string(text, "\n  }\n");
}

static void add_layers(srv_text *text, const srv_init_options *o)
{
    srv_text_string(text, "  \"norm\": \"rmsnorm\",\n"
                          "  \"residual\": true,\n"
                          "  \"final_norm\": \"none\",\n"
                          "  \"layers\": [");
    for (int i = 0; i < o->layers; i++) {
        attn_backend mixer = o->backends.value[i % o->backends.count];
        srv_text_format(text, "%s\n    {\"mixer\": \"%s\", \"trained\": false", i ? "," : "",
                        attn_backend_names[mixer]);
        add_params(text, o, mixer);
        srv_text_string(text, "}");
    }
    srv_text_string(text, "\n  ]\n");
}

void srv_init_describe(srv_text *text, const srv_init_options *options)
{
    static const char *const causal[] = {
        [SRV_INIT_NEVER] = "false", [SRV_INIT_ALWAYS] = "true", [SRV_INIT_EITHER] = "\"any\""};
    const srv_init_options *o = options;
    srv_text_format(text,
                    "{\n"
                    "  \"model_type\": \"%s\",\n"
                    "  \"hidden_size\": %lld,\n"
                    "  \"num_attention_heads\": %lld,\n"
                    "  \"num_key_value_heads\": %lld,\n"
                    "  \"head_dim\": %lld,\n"
                    "  \"causal\": %s,\n",
                    o->layers > 1 ? "stack" : "layer", (long long)o->dim, (long long)o->heads,
                    (long long)o->kv_heads, (long long)(o->dim / o->heads), causal[o->causal]);
    if (o->layers > 1)
        add_layers(text, o);
    else
        add_backends(text, o);
    srv_text_string(text, "}\n");
}
