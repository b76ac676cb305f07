/* Taking tensors: found, copied, widened, refused. */
#include "tests/support/stored.h"
#include "tests/support/suite.h"
#include "tests/support/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODEL "model.safetensors"

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
    attn_weights *weights = weights_need(&folder);
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
    weights_write(&folder, "{}", 0);
    attn_weights *weights = weights_need(&folder);
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
    attn_weights *weights = weights_need(&folder);
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
    attn_weights *weights = weights_need(folder);
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
    attn_weights *weights = weights_need(&folder);
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
    weights_write(&folder, header, 52);
    attn_weights *weights = weights_need(&folder);
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
    attn_weights *weights = weights_need(&folder);
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
        {NULL, NULL},
    };
    return test_main("weights", cases);
}
