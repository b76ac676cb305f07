#include "model/weights.h"
#include "tests/support/folder.h"
#include "tests/support/stored.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "model.safetensors"
#define INDEX "model.safetensors.index.json"

static attn_weights *need_open(const test_folder *folder)
{
    attn_error error = {0};
    attn_weights *weights = attn_weights_open(folder->path, "model", &error);
    CHECK(weights != NULL, "refused: %s", error.message);
    if (!weights)
        abort();
    return weights;
}

/* Opening is refused with this status and sentence. */
static void refuses(const test_folder *folder, attn_status status, const char *expected)
{
    attn_error error = {0};
    attn_weights *weights = attn_weights_open(folder->path, "model", &error);
    CHECK(weights == NULL, "accepted, expected %s", expected);
    CHECK(error.status == status, "%s: %s", expected, attn_status_name(error.status));
    CHECK(folder_says(folder, &error, expected), "another sentence");
    attn_weights_close(weights);
}

/* A header and the bytes behind it as the checkpoint. */
static void write_raw(const test_folder *folder, const char *header, size_t data_bytes)
{
    stored_text made = stored_text_make(header, strlen(header), data_bytes);
    folder_write(folder, MODEL, made.bytes, made.size);
    free(made.bytes);
}

/* What there is */

static const float six[6] = {1, 2, 3, 4, 5, 6};

static void lists_by_name(void)
{
    static const attn_stored tensors[] = {
        {.name = "layers.10.norm.weight", .rank = 1, .dim = {6}, .data = (const void *)six},
        {.name = "b", .rank = 2, .dim = {2, 3}, .data = (const void *)six},
        {.name = "layers.2.norm.weight", .rank = 1, .dim = {6}, .data = (const void *)six},
        {.name = "a", .rank = 0, .data = (const void *)six},
        {.name = "layers.011.x", .rank = 0, .data = (const void *)six},
        {.name = "layers.12", .rank = 0, .data = (const void *)six},
        {.name = "layers.x.y", .rank = 0, .data = (const void *)six},
    };
    test_folder folder = folder_open();
    folder_tensors(&folder, MODEL, tensors, 7);
    attn_weights *weights = need_open(&folder);
    CHECK(attn_weights_count(weights) == 7, "%d", attn_weights_count(weights));
    for (int i = 1; i < attn_weights_count(weights); i++)
        CHECK(strcmp(attn_weights_at(weights, i - 1)->name, attn_weights_at(weights, i)->name) < 0,
              "%d is out of order", i);
    CHECK(attn_weights_find(weights, "layers.2.", "norm.weight") ==
              attn_weights_find(weights, "", "layers.2.norm.weight"),
          "a name in two parts");
    CHECK(attn_weights_find(weights, "layers.2.", "norm.weight") != NULL, "is not found");
    static const char *const absent[][2] = {
        {"", ""},       {"layers.2.", ""}, {"layers.2.norm", "weight"},
        {"", "layers"}, {"aa", ""},        {"layers.3.", "norm.weight"}};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        CHECK(!attn_weights_find(weights, absent[i][0], absent[i][1]), "%s%s is found",
              absent[i][0], absent[i][1]);
    CHECK(attn_weights_layers(weights, "layers.", 64) == 11, "%d layers",
          attn_weights_layers(weights, "layers.", 64));
    CHECK(attn_weights_layers(weights, "layers.", 10) == 3, "of the first ten");
    CHECK(attn_weights_layers(weights, "blocks.", 64) == 0, "none");
    struct stat found;
    stat(folder_path(&folder, MODEL), &found);
    CHECK(attn_weights_mapped_bytes(weights) == (size_t)found.st_size, "bytes mapped");
    attn_weights_close(weights);
    folder_close(&folder);
}

static void a_checkpoint_without_tensors(void)
{
    test_folder folder = folder_open();
    write_raw(&folder, "{}", 0);
    attn_weights *weights = need_open(&folder);
    attn_error error = {0};
    CHECK(attn_weights_count(weights) == 0, "none");
    CHECK(!attn_weights_need(weights, "attn.", "q_proj.weight", ATTN_DIMS(ATTN_ANY, 8), &error),
          "another sentence");
    CHECK(folder_says(&folder, &error,
                      MODEL ": tensor \"attn.q_proj.weight\" is missing, expected one of shape "
                            "[any, 8]"),
          "another sentence");
    attn_weights_close(weights);
    attn_weights_close(NULL);
    folder_close(&folder);
}

/* Words of 16 bits and what they are worth. Read as F16, BF16's 3f80 would be 1.875. */
static void half_words(void)
{
    static const uint16_t bf16[] = {0x3f80, 0xc049, 0x0001, 0x7f80};
    static const uint16_t f16[] = {0x3c00, 0x0001, 0x03ff, 0x7bff, 0xfc00};
    static const float bf16_worth[] = {1, -3.140625f, 0x1p-133f};
    static const float f16_worth[] = {1, 0x1p-24f, 1023 * 0x1p-24f, 65504};
    static const attn_stored tensors[] = {
        {.name = "b", .dtype = ATTN_BF16, .rank = 2, .dim = {3, 1}, .data = (const void *)bf16},
        {.name = "b_inf", .dtype = ATTN_BF16, .rank = 2, .dim = {2, 2}, .data = (const void *)bf16},
        {.name = "h", .dtype = ATTN_FP16, .rank = 2, .dim = {2, 2}, .data = (const void *)f16},
        {.name = "h_inf", .dtype = ATTN_FP16, .rank = 2, .dim = {5, 1}, .data = (const void *)f16},
    };
    test_folder folder = folder_open();
    folder_tensors(&folder, MODEL, tensors, 4);
    attn_weights *weights = need_open(&folder);
    attn_matrix b, h;
    attn_error error = {0};
    float scratch[4];
    CHECK(attn_weights_matrix(weights, "", "b", 3, 1, &b, &error) == ATTN_OK, "%s", error.message);
    CHECK(attn_weights_matrix(weights, "", "h", ATTN_ANY, 2, &h, &error) == ATTN_OK, "%s",
          error.message);
    CHECK(attn_weights_owned_bytes(weights) == 0, "halves stay where they are");
    CHECK(attn_matrix_scratch(&b, 3) == 3 && attn_matrix_scratch(&h, 1) == 2, "scratch");
    const float *rows = attn_matrix_rows(&b, &attn_elementwise_scalar, 0, 3, scratch);
    for (int i = 0; i < 3; i++)
        CHECK(rows[i] == bf16_worth[i], "%04x is %a", bf16[i], (double)rows[i]);
    for (int r = 0; r < 2; r++) {
        rows = attn_matrix_rows(&h, &attn_elementwise_scalar, r, 1, scratch);
        for (int c = 0; c < 2; c++)
            CHECK(rows[c] == f16_worth[2 * r + c], "%04x is %a", f16[2 * r + c], (double)rows[c]);
    }
    CHECK(attn_weights_matrix(weights, "b_", "inf", 2, 2, &b, &error) == ATTN_INVALID, "accepted");
    CHECK(folder_says(&folder, &error,
                      MODEL ": tensor \"b_inf\" holds an infinity at [1][1], expected finite "
                            "weights"),
          "another sentence");
    error = (attn_error){0};
    CHECK(!attn_weights_floats(weights, "", "h_inf", ATTN_DIMS(5, 1), &error), "accepted");
    CHECK(folder_says(&folder, &error,
                      MODEL ": tensor \"h_inf\" holds an infinity at [4][0], expected finite "
                            "weights"),
          "another sentence");
    attn_weights_close(weights);
    folder_close(&folder);
}

/* Element types, and how each stores `six`. */
static const struct {
    const char *type;
    int size;
    union {
        float f32[6];
        double f64[6];
        uint16_t half[6];
    } stored;
} types[] = {
    {"F32", 4, {.f32 = {1, 2, 3, 4, 5, 6}}},
    {"F64", 8, {.f64 = {1, 2, 3, 4, 5, 6}}},
    {"BF16", 2, {.half = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0}}},
    {"F16", 2, {.half = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600}}},
};

/* Write the tensor w of that type behind a header that ends in spaces and `before` bytes of another
 * tensor; return the byte of the file where it begins. */
static int write_shifted(const test_folder *folder, int type, int spaces, int before)
{
    char header[256];
    int bytes = 6 * types[type].size;
    int length = snprintf(header, sizeof header,
                          "{\"u\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
                          "\"w\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[%d,%d]}}%.*s",
                          before, before, types[type].type, before, before + bytes, spaces, "    ");
    stored_text made = stored_text_make(header, (size_t)length, (size_t)(before + bytes));
    int begin = 8 + length + before;
    memcpy(made.bytes + begin, &types[type].stored, (size_t)bytes);
    folder_write(folder, MODEL, made.bytes, made.size);
    free(made.bytes);
    return begin;
}

/* The tensor has the same numbers wherever it begins, and is copied only where it must be. */
static void check_shifted(const test_folder *folder, int type, int begin)
{
    attn_weights *weights = need_open(folder);
    attn_error error = {0};
    attn_matrix matrix;
    float scratch[3];
    CHECK(attn_weights_matrix(weights, "", "w", 2, 3, &matrix, &error) == ATTN_OK, "%s",
          error.message);
    bool copied = types[type].size == 8 || (types[type].size == 4 && begin % 4 != 0);
    CHECK((attn_weights_owned_bytes(weights) > 0) == copied, "%s from byte %d: %zu bytes owned",
          types[type].type, begin, attn_weights_owned_bytes(weights));
    const float *whole = attn_weights_floats(weights, "", "w", ATTN_DIMS(2, 3), &error);
    for (int i = 0; i < 6; i++) {
        const float *row = attn_matrix_rows(&matrix, &attn_elementwise_scalar, i / 3, 1, scratch);
        CHECK(row[i % 3] == six[i] && whole[i] == six[i], "%s from byte %d: element %d",
              types[type].type, begin, i);
    }
    attn_weights_close(weights);
}

static void unaligned(void)
{
    test_folder folder = folder_open();
    for (int type = 0; type < 4; type++)
        for (int spaces = 0; spaces < 4; spaces++)
            for (int before = 0; before < 6; before++)
                check_shifted(&folder, type, write_shifted(&folder, type, spaces, before));
    folder_close(&folder);
}

/* Owned copies */

static void copies(void)
{
    static const double wide[6] = {1, -2, 3e38, 1e-45, 5, 6};
    static const attn_stored tensors[] = {
        {.name = "E", .rank = 2, .dim = {2, 3}, .data = (const void *)six},
        {.name = "d", .dtype = ATTN_FP64, .rank = 2, .dim = {3, 2}, .data = (const void *)wide},
    };
    test_folder folder = folder_open();
    folder_tensors(&folder, MODEL, tensors, 2);
    attn_weights *weights = need_open(&folder);
    attn_error error = {0};
    const float *flat = attn_weights_floats(weights, "", "E", ATTN_DIMS(2, 3), &error);
    CHECK(attn_weights_owned_bytes(weights) == 0, "an aligned float32 needs no copy");
    const float *across = attn_weights_transposed(weights, "", "E", 2, ATTN_ANY, &error);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            CHECK(across[2 * j + i] == six[3 * i + j] && flat[3 * i + j] == six[3 * i + j],
                  "[%d][%d]", i, j);
    size_t owned = attn_weights_owned_bytes(weights);
    CHECK(owned == 64, "%zu", owned);
    CHECK(attn_weights_transposed(weights, "", "E", 2, 3, &error) == across, "made once");
    CHECK(attn_weights_owned_bytes(weights) == owned, "and counted once");
    attn_matrix matrix;
    CHECK(attn_weights_matrix(weights, "", "d", 3, 2, &matrix, &error) == ATTN_OK, "%s",
          error.message);
    CHECK(matrix.dtype == ATTN_FP32 && attn_matrix_scratch(&matrix, 3) == 0, "is float32 now");
    CHECK(attn_weights_floats(weights, "", "d", ATTN_DIMS(3, 2), &error) == matrix.data, "shared");
    for (int i = 0; i < 6; i++)
        CHECK(attn_matrix_rows(&matrix, &attn_elementwise_scalar, i / 2, 1, NULL)[i % 2] ==
                  (float)wide[i],
              "d %d", i);
    attn_weights_close(weights);
    folder_close(&folder);
}

/* Tensors that are not what is needed */

static void wrong_tensors(void)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"i\":{\"dtype\":\"I64\",\"shape\":[3],\"data_offsets\":[24,48]},"
        "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[48,52]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[52,52]}}";
    static const struct {
        const char *name;
        int64_t rows, columns;
        attn_status status;
        const char *message;
    } list[] = {
        {"w", 3, 2, ATTN_INVALID, "has the shape [2, 3], expected [3, 2]"},
        {"w", ATTN_ANY, 4, ATTN_INVALID, "has the shape [2, 3], expected [any, 4]"},
        {"e", ATTN_ANY, 3, ATTN_INVALID, "has the shape [0, 3], expected [any, 3]"},
        {"v", 2, ATTN_ANY, ATTN_INVALID, "is missing, expected one of shape [2, any]"},
        {"i", 3, 1, ATTN_UNSUPPORTED,
         "has elements of type \"I64\", expected F32, F16, BF16 or F64"},
        {"f8", 2, 2, ATTN_UNSUPPORTED,
         "has elements of type \"F8_E4M3\", expected F32, F16, BF16 or F64"},
    };
    test_folder folder = folder_open();
    write_raw(&folder, header, 52);
    attn_weights *weights = need_open(&folder);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char expected[256];
        attn_error error = {0};
        attn_matrix matrix;
        snprintf(expected, sizeof expected, MODEL ": tensor \"%s\" %s", list[i].name,
                 list[i].message);
        attn_status status = attn_weights_matrix(weights, "", list[i].name, list[i].rows,
                                                 list[i].columns, &matrix, &error);
        CHECK(status == list[i].status && error.status == status, "%s: %s", expected,
              attn_status_name(status));
        CHECK(folder_says(&folder, &error, expected), "another sentence");
        CHECK(strcmp(error.param, list[i].name) == 0, "param %s", error.param);
    }
    attn_error error = {0};
    CHECK(!attn_weights_floats(weights, "", "w", ATTN_DIMS(6), &error), "rank 1");
    CHECK(folder_says(&folder, &error, MODEL ": tensor \"w\" has the shape [2, 3], expected [6]"),
          "another sentence");
    attn_weights_close(weights);
    folder_close(&folder);
}

static void not_finite(void)
{
    enum {
        ROWS = 3,
        COLUMNS = 1500 /* more than one block of the check */
    };
    static float values[ROWS * COLUMNS];
    static const double wide[2] = {1, -1e300};
    values[2 * COLUMNS + 17] = -NAN;
    values[2 * COLUMNS + 18] = INFINITY;
    static const attn_stored tensors[] = {
        {.name = "w", .rank = 3, .dim = {ROWS, 1, COLUMNS}, .data = (const void *)values},
        {.name = "d", .dtype = ATTN_FP64, .rank = 1, .dim = {2}, .data = (const void *)wide},
    };
    test_folder folder = folder_open();
    folder_tensors(&folder, MODEL, tensors, 2);
    attn_weights *weights = need_open(&folder);
    attn_error error = {0};
    CHECK(!attn_weights_floats(weights, "", "w", ATTN_DIMS(ROWS, 1, ATTN_ANY), &error), "accepted");
    CHECK(folder_says(&folder, &error,
                      MODEL ": tensor \"w\" holds NaN at [2][0][17], expected finite weights"),
          "another sentence");
    error = (attn_error){0};
    CHECK(!attn_weights_floats(weights, "", "d", ATTN_DIMS(2), &error), "accepted");
    CHECK(folder_says(&folder, &error,
                      MODEL ": tensor \"d\" holds a number beyond float32 at [1], expected finite "
                            "weights"),
          "another sentence");
    CHECK(attn_weights_owned_bytes(weights) == 0, "nothing was copied");
    attn_weights_close(weights);
    folder_close(&folder);
}

/* Layouts on which readers disagree, each with a sentence of its own. */
static void hostile_layouts(void)
{
#define ENTRY(name, from, to) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[" #from "," #to "]}"
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } list[] = {
        {"{" ENTRY("a", 0, 16) "," ENTRY("a", 16, 32) "}", 32,
         "tensor \"a\" is there more than once: a duplicate name"},
        {"{" ENTRY("a", 0, 16) "," ENTRY("b", 8, 24) "}", 24,
         "tensor \"b\" begins at byte 8 of the data, before tensor \"a\" ends at 16: an overlap"},
        {"{" ENTRY("a", 0, 16) "," ENTRY("b", 20, 36) "}", 36,
         "tensor \"b\" begins at byte 20 of the data, but those from 16 belong to no tensor: a "
         "gap"},
        {"{" ENTRY("a", 0, 16) "}", 17, "1 trailing bytes follow the data of the last tensor"},
        {"{" ENTRY("a", 0, 16) "}", 15,
         "tensor \"a\" ends at byte 16 of the data, which are 15 bytes: truncated"},
    };
#undef ENTRY
    test_folder folder = folder_open();
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, MODEL ": %s", list[i].message);
        write_raw(&folder, list[i].header, list[i].data_bytes);
        refuses(&folder, ATTN_MALFORMED, expected);
    }
    folder_close(&folder);
}

/* Files */

static void wrong_files(void)
{
    test_folder folder = folder_open();
    attn_error error = {0};
    CHECK(!attn_weights_open("/nowhere/at/all", "model", &error), "accepted");
    CHECK(strcmp(error.message, "/nowhere/at/all: there is neither " MODEL " nor " INDEX) == 0,
          "%s", error.message);
    folder_text(&folder, MODEL, "");
    refuses(&folder, ATTN_INVALID, MODEL ": is empty");
    folder_text(&folder, MODEL, "1234567");
    refuses(&folder, ATTN_MALFORMED,
            MODEL ": 7 bytes are too short for safetensors, which begins with 8 bytes of header "
                  "length");
    chmod(folder_path(&folder, MODEL), 0);
    if (geteuid() == 0)
        printf("SKIP an unreadable file: root reads it\n");
    else
        refuses(&folder, ATTN_INVALID, MODEL ": Permission denied");
    unlink(folder_path(&folder, MODEL));
    mkdir(folder_path(&folder, MODEL), 0700);
    refuses(&folder, ATTN_INVALID, MODEL ": is a directory, expected a file");
    rmdir(folder_path(&folder, MODEL));
    mkfifo(folder_path(&folder, MODEL), 0600);
    refuses(&folder, ATTN_INVALID, MODEL ": is not a regular file");
    unlink(folder_path(&folder, MODEL));
    CHECK(symlink("nothing", folder_path(&folder, MODEL)) == 0, "a link");
    refuses(&folder, ATTN_INVALID, MODEL ": No such file or directory");
    folder_close(&folder);
}

static void other_formats(void)
{
    static const char *const names[] = {"pytorch_model.bin", "layer.pt", "model.gguf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        test_folder folder = folder_open();
        folder_text(&folder, names[i], "x");
        folder_text(&folder, "README.md", "x");
        char expected[400];
        attn_error error = {0};
        snprintf(expected, sizeof expected,
                 "%s: there is %s but no " MODEL ", and only safetensors are read; save it anew "
                 "with save_pretrained(folder), or safetensors.torch.save_file(state_dict, "
                 "\"" MODEL "\")",
                 folder.path, names[i]);
        CHECK(!attn_weights_open(folder.path, "model", &error), "%s", names[i]);
        CHECK(strcmp(error.message, expected) == 0, "%s", error.message);
        folder_close(&folder);
    }
}

/* A link to a file elsewhere is followed, as download caches need. */
static void links(void)
{
    static const attn_stored tensor = {
        .name = "w", .rank = 1, .dim = {6}, .data = (const void *)six};
    test_folder blobs = folder_open(), folder = folder_open();
    folder_tensors(&blobs, "0123abcd", &tensor, 1);
    char target[64];
    snprintf(target, sizeof target, "%s", folder_path(&blobs, "0123abcd"));
    CHECK(symlink(target, folder_path(&folder, MODEL)) == 0, "a link");
    attn_weights *weights = need_open(&folder);
    CHECK(attn_weights_find(weights, "", "w") != NULL, "accepted");
    attn_weights_close(weights);
    folder_close(&folder);
    folder_close(&blobs);
}

/* Shards */

static void write_shards(const test_folder *folder)
{
    static const float more[6] = {7, 8, 9, 10, 11, 12};
    static const attn_stored first[] = {
        {.name = "b", .rank = 1, .dim = {6}, .data = (const void *)six},
        {.name = "stray", .rank = 1, .dim = {6}, .data = (const void *)six},
    };
    static const attn_stored second[] = {
        {.name = "a", .rank = 2, .dim = {2, 3}, .data = (const void *)more},
        {.name = "c", .rank = 1, .dim = {2}, .data = (const void *)more},
    };
    folder_tensors(folder, "model-00001-of-00002.safetensors", first, 2);
    folder_tensors(folder, "model-00002-of-00002.safetensors", second, 2);
}

static void shards(void)
{
    test_folder folder = folder_open();
    write_shards(&folder);
    folder_text(&folder, INDEX,
                "{\"metadata\": {\"total_size\": -1}, \"weight_map\": {"
                "\"c\": \"model-00002-of-00002.safetensors\","
                "\"b\": \"model-00001-of-00002.safetensors\","
                "\"a\": \"model-00002-of-00002.safetensors\"}}");
    attn_weights *weights = need_open(&folder);
    CHECK(attn_weights_count(weights) == 3, "%d", attn_weights_count(weights));
    CHECK(!attn_weights_find(weights, "", "stray"), "the index does not list it");
    attn_error error = {0};
    const float *a = attn_weights_floats(weights, "", "a", ATTN_DIMS(2, 3), &error);
    const float *b = attn_weights_floats(weights, "", "b", ATTN_DIMS(6), &error);
    CHECK(a && a[0] == 7 && a[5] == 12 && b && b[0] == 1 && b[5] == 6, "%s", error.message);
    CHECK(!attn_weights_need(weights, "", "stray", ATTN_DIMS(6), &error), "accepted");
    CHECK(folder_says(&folder, &error,
                      INDEX ": tensor \"stray\" is missing, expected one of shape [6]"),
          "another sentence");
    error = (attn_error){0};
    CHECK(!attn_weights_need(weights, "", "c", ATTN_DIMS(3), &error), "accepted");
    CHECK(folder_says(&folder, &error,
                      "model-00002-of-00002.safetensors: tensor \"c\" has the shape [2], expected "
                      "[3]"),
          "another sentence");
    attn_weights_close(weights);
    folder_close(&folder);
}

static void hostile_indices(void)
{
#define PLAIN     ", expected the plain name of a .safetensors file in the same folder"
#define MAP(file) "{\"weight_map\": {\"b\": \"" file "\"}}"
    static const struct {
        const char *text;
        attn_status status;
        const char *message;
    } list[] = {
        {MAP("../model-00001-of-00002.safetensors"), ATTN_MALFORMED,
         INDEX ": weight_map.b is \"../model-00001-of-00002.safetensors\"" PLAIN},
        {MAP("/etc/passwd"), ATTN_MALFORMED, INDEX ": weight_map.b is \"/etc/passwd\"" PLAIN},
        {MAP("x/y.safetensors"), ATTN_MALFORMED,
         INDEX ": weight_map.b is \"x/y.safetensors\"" PLAIN},
        {MAP("..safetensors"), ATTN_MALFORMED, INDEX ": weight_map.b is \"..safetensors\"" PLAIN},
        {MAP(".safetensors"), ATTN_MALFORMED, INDEX ": weight_map.b is \".safetensors\"" PLAIN},
        {MAP(""), ATTN_MALFORMED, INDEX ": weight_map.b is \"\"" PLAIN},
        {MAP("a\\nb.safetensors"), ATTN_MALFORMED,
         INDEX ": weight_map.b is \"a?b.safetensors\"" PLAIN},
        {MAP("pytorch_model.bin"), ATTN_MALFORMED,
         INDEX ": weight_map.b is \"pytorch_model.bin\"" PLAIN},
        {"{\"weight_map\": {\"b\": 1}}", ATTN_MALFORMED, INDEX ": weight_map.b is 1" PLAIN},
        {"{\"weight_map\": {}}", ATTN_MALFORMED,
         INDEX ": weight_map is an object, expected an object of tensor names and their files"},
        {"{\"weight_map\": []}", ATTN_MALFORMED,
         INDEX ": weight_map is an array, expected an object of tensor names and their files"},
        {"{}", ATTN_MALFORMED,
         INDEX ": weight_map is missing, expected an object of tensor names and their files"},
        {"[1]", ATTN_MALFORMED, INDEX ": expected a JSON object"},
        {"{\"weight_map\"", ATTN_MALFORMED, INDEX ": line 1: ':' expected near end of file"},
        {"{\"weight_map\": {\"b\": \"x\", \"b\": \"y\"}}", ATTN_MALFORMED,
         INDEX ": line 1: duplicate object key near '\"b\"'"},
        {MAP("model-00003-of-00002.safetensors"), ATTN_INVALID,
         INDEX ": lists the shard model-00003-of-00002.safetensors, which is not in the folder"},
        {MAP("model-00002-of-00002.safetensors"), ATTN_INVALID,
         "model-00002-of-00002.safetensors: tensor \"b\" is missing, though the index says that "
         "it is here"},
        {MAP("folder.safetensors"), ATTN_INVALID,
         "folder.safetensors: is a directory, expected a file"},
    };
#undef MAP
#undef PLAIN
    test_folder folder = folder_open();
    write_shards(&folder);
    mkdir(folder_path(&folder, "folder.safetensors"), 0700);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        folder_text(&folder, INDEX, list[i].text);
        refuses(&folder, list[i].status, list[i].message);
    }
    folder_close(&folder);
}

static void too_many_shards(void)
{
    test_folder folder = folder_open();
    char *text = stored_memory(1025 * 40 + 40), *at = stpcpy(text, "{\"weight_map\": {");
    for (int i = 0; i < 1025; i++)
        at += sprintf(at, "%s\"%d\":\"%d.safetensors\"", i ? "," : "", i, i);
    strcpy(at, "}}");
    folder_text(&folder, INDEX, text);
    refuses(&folder, ATTN_UNSUPPORTED,
            INDEX ": weight_map lists 1025 files, expected at most 1024");
    free(text);
    folder_close(&folder);
}

int main(void)
{
    static const test_case cases[] = {
        {"tensors by name", lists_by_name},
        {"a checkpoint without tensors", a_checkpoint_without_tensors},
        {"BF16 and F16 words", half_words},
        {"unaligned data", unaligned},
        {"copies are made once", copies},
        {"tensors that are not as needed", wrong_tensors},
        {"numbers that are not finite", not_finite},
        {"layouts that readers disagree on", hostile_layouts},
        {"files that are not as needed", wrong_files},
        {"other formats", other_formats},
        {"links are followed", links},
        {"shards", shards},
        {"hostile indices", hostile_indices},
        {"too many shards", too_many_shards},
        {NULL, NULL},
    };
    return test_main("weights", cases);
}
