/* The files of a checkpoint: one, shards behind an index, and what only looks like them. */
#include "tests/support/stored.h"
#include "tests/support/suite.h"
#include "tests/support/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL "model.safetensors"
#define INDEX "model.safetensors.index.json"

static const float six[6] = {1, 2, 3, 4, 5, 6};

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
        weights_write(&folder, list[i].header, list[i].data_bytes);
        weights_refused(&folder, ATTN_MALFORMED, expected);
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
    weights_refused(&folder, ATTN_INVALID, MODEL ": is empty");
    folder_text(&folder, MODEL, "1234567");
    weights_refused(&folder, ATTN_MALFORMED,
                    MODEL
                    ": 7 bytes are too short for safetensors, which begins with 8 bytes of header "
                    "length");
    chmod(folder_path(&folder, MODEL), 0);
    if (geteuid() == 0)
        printf("SKIP an unreadable file: root reads it\n");
    else
        weights_refused(&folder, ATTN_INVALID, MODEL ": Permission denied");
    unlink(folder_path(&folder, MODEL));
    mkdir(folder_path(&folder, MODEL), 0700);
    weights_refused(&folder, ATTN_INVALID, MODEL ": is a directory, expected a file");
    rmdir(folder_path(&folder, MODEL));
    mkfifo(folder_path(&folder, MODEL), 0600);
    weights_refused(&folder, ATTN_INVALID, MODEL ": is not a regular file");
    unlink(folder_path(&folder, MODEL));
    CHECK(symlink("nothing", folder_path(&folder, MODEL)) == 0, "a link");
    weights_refused(&folder, ATTN_INVALID, MODEL ": No such file or directory");
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
    attn_weights *weights = weights_need(&folder);
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
    attn_weights *weights = weights_need(&folder);
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
        weights_refused(&folder, list[i].status, list[i].message);
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
    weights_refused(&folder, ATTN_UNSUPPORTED,
                    INDEX ": weight_map lists 1025 files, expected at most 1024");
    free(text);
    folder_close(&folder);
}

int main(void)
{
    static const test_case cases[] = {
        {"layouts that readers disagree on", hostile_layouts},
        {"files that are not as needed", wrong_files},
        {"other formats", other_formats},
        {"links are followed", links},
        {"shards", shards},
        {"hostile indices", hostile_indices},
        {"too many shards", too_many_shards},
        {NULL, NULL},
    };
    return test_main("weights_files", cases);
}
