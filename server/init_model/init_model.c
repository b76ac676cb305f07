/* The list of tensors, then their numbers a piece at a time into the file: memory is the list and
 * one piece, however large the model is. */
#include "server/init_model/init_model.h"

#include "server/clock.h"
#include "server/init_model/describe.h"
#include "server/init_model/folder.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2,
    PIECE_BYTES = 1 << 16
};

typedef struct writer {
    srv_init_options options;
    attn_untrained *tensors;
    srv_folder folder;
    size_t written_bytes; /* of data */
    int64_t begun_ns, told_ns;
} writer;

static void print_help(void)
{
    fputs(
        "usage: attnd init-model DIR [--flag value]...\n"
        "\n"
        "Write DIR/config.json and DIR/model.safetensors, a model to try attnd with. Its weights\n"
        "are RANDOM: nobody trained them, every backend says \"trained\": false, and its answers\n"
        "mean nothing. The same flags give the same bytes on every machine.\n"
        "\n"
        "With --layers 1 it is a layer, and --backends are what a request may choose from; empty:\n"
        "exact,window,sparse,linformer,performer,mamba,hybrid (no linformer if --causal true).\n"
        "With more it is a stack: layer i mixes by the i-th of --backends, and after the last by\n"
        "the first again; empty: mamba,window, the hybrid. Each layer has an RMSNorm before it\n"
        "and a residual around it, and linformer layers share one E.\n"
        "\n"
        "Both files appear whole or not at all. A folder that holds a model is refused without\n"
        "--force.\n"
        "\n"
        "flags, with [defaults]:\n",
        stdout);
    srv_init_options_help(stdout);
    fputs("\n"
          "try:  attnd init-model models/demo\n"
          "      attnd init-model models/stack --layers 6 --dim 512 --heads 8 --kv-heads 2 \\\n"
          "                       --backends mamba,mamba,window\n",
          stdout);
}

static int complain(const attn_error *error)
{
    fprintf(stderr, "attnd: %s\n", error->message);
    return error->status == ATTN_INVALID ? EXIT_USAGE : EXIT_FAILURE;
}

static attn_status list_tensors(writer *w, attn_error *error)
{
    const srv_init_options *o = &w->options;
    attn_untrained_spec spec = {.hidden = o->dim,
                                .heads = o->heads,
                                .kv_heads = o->kv_heads,
                                .seq_len = o->seq_len,
                                .k = o->k,
                                .seed = (uint64_t)o->seed,
                                .layers = (int)o->layers,
                                .stack = o->layers > 1,
                                .mixers = o->layers > 1 ? o->backends.count : 1};
    for (int i = 0; i < o->backends.count; i++)
        spec.parts[i % spec.mixers] |= attn_backend_parts(o->backends.value[i]);
    w->tensors = attn_untrained_open(&spec, error);
    return w->tensors ? ATTN_OK : error->status;
}

/* Where a long run is, every few seconds. */
static void tell(writer *w)
{
    const int64_t every_ns = 3000000000;
    int64_t now = srv_now_ns();
    if (now - w->told_ns < every_ns)
        return;
    w->told_ns = now;
    size_t total = attn_untrained_bytes(w->tensors);
    fprintf(stderr, "attnd init-model: %zu of %zu MB after %.0f s\n", w->written_bytes >> 20,
            total >> 20, (double)(now - w->begun_ns) / 1e9);
}

static attn_status write_tensor(writer *w, int index, attn_error *error)
{
    unsigned char piece[PIECE_BYTES];
    const attn_stored *tensor = &attn_untrained_tensors(w->tensors)[index];
    size_t element_bytes = attn_dtype_bytes(tensor->dtype);
    attn_status status = ATTN_OK;
    for (size_t first = 0, count; first < tensor->count && status == ATTN_OK; first += count) {
        count = tensor->count - first;
        if (count > PIECE_BYTES / element_bytes)
            count = PIECE_BYTES / element_bytes;
        attn_untrained_fill(w->tensors, index, first, count, piece);
        status =
            srv_folder_write(&w->folder, SRV_FOLDER_WEIGHTS, piece, count * element_bytes, error);
        w->written_bytes += count * element_bytes;
        tell(w);
    }
    return status;
}

static attn_status write_weights(writer *w, attn_error *error)
{
    const attn_metadata metadata[] = {
        {"format", "pt"},
        {"weights", "random, not trained: written by attnd init-model"},
    };
    unsigned char *header = NULL;
    size_t header_bytes;
    int count = attn_untrained_count(w->tensors);
    attn_status status =
        attn_safetensors_header(attn_untrained_tensors(w->tensors), count, metadata,
                                sizeof metadata / sizeof *metadata, &header, &header_bytes, error);
    if (status != ATTN_OK)
        return status;
    status = srv_folder_begin(&w->folder, SRV_FOLDER_WEIGHTS,
                              header_bytes + attn_untrained_bytes(w->tensors), error);
    if (status == ATTN_OK)
        status = srv_folder_write(&w->folder, SRV_FOLDER_WEIGHTS, header, header_bytes, error);
    for (int i = 0; i < count && status == ATTN_OK; i++)
        status = write_tensor(w, i, error);
    free(header);
    return status;
}

static attn_status write_config(writer *w, attn_error *error)
{
    srv_text text = SRV_TEXT_EMPTY;
    srv_init_describe(&text, &w->options);
    attn_status status = text.failed ? attn_error_set(error, ATTN_NO_MEMORY, NULL,
                                                      "init-model: no memory for config.json")
                                     : ATTN_OK;
    if (status == ATTN_OK)
        status = srv_folder_begin(&w->folder, SRV_FOLDER_CONFIG, text.length, error);
    if (status == ATTN_OK)
        status = srv_folder_write(&w->folder, SRV_FOLDER_CONFIG, text.data, text.length, error);
    srv_text_free(&text);
    return status;
}

static attn_status write_model(writer *w, attn_error *error)
{
    const char *path = w->options.folder;
    attn_status status = srv_folder_open(&w->folder, path, w->options.force, error);
    if (status == ATTN_OK)
        status = write_weights(w, error);
    if (status == ATTN_OK)
        status = write_config(w, error);
    if (status == ATTN_OK)
        status = srv_folder_publish(&w->folder, error);
    if (status == ATTN_OK)
        printf("wrote %s: %d tensors of %zu bytes\n"
               "The weights are random: good for trying attnd, but its answers mean nothing.\n",
               path, attn_untrained_count(w->tensors), attn_untrained_bytes(w->tensors));
    srv_folder_close(&w->folder);
    return status;
}

int srv_init_model(char *const *arguments)
{
    for (char *const *argument = arguments; *argument; argument++)
        if (strcmp(*argument, "--help") == 0 || strcmp(*argument, "-h") == 0) {
            print_help();
            return EXIT_SUCCESS;
        }
    /* A file beyond the limit of its size is then an error of write(), which can be told. */
    signal(SIGXFSZ, SIG_IGN);
    attn_error error = {0};
    writer w = {.begun_ns = srv_now_ns(), .folder.fd = -1};
    w.told_ns = w.begun_ns;
    attn_status status = srv_init_options_read(&w.options, arguments, &error);
    if (status == ATTN_OK)
        status = list_tensors(&w, &error);
    if (status == ATTN_OK)
        status = write_model(&w, &error);
    attn_untrained_close(w.tensors);
    return status == ATTN_OK ? EXIT_SUCCESS : complain(&error);
}
