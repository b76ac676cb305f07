/* libFuzzer target: the configuration file, and the flags and variables that outweigh it.
 *
 * The input is the file up to the first NUL, then flags (what begins with --) and environment
 * variables, each ended by a NUL. A configuration that is accepted lies within its bounds, and
 * printed and read again it is the same. The file is a block of memory behind a descriptor, so
 * nothing touches a disk. */
#include "server/config.h"
#include "server/cost/calibration.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    WORDS = 16
};

typedef struct words {
    char *list[WORDS + 3]; /* room for --config, its value and the closing NULL */
    int count;
} words;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what, const char *which)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, which);
        abort();
    }
}

/* A descriptor whose path under /proc reads as the text; the caller closes it. */
static int open_text(const char *text, size_t size, char path[32])
{
    int fd = memfd_create("config", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, text, size) == (ssize_t)size, "no file in memory", "");
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* An input may not name files of its own: reading them could wait for ever. */
static bool names_file(const char *word)
{
    return strncmp(word, "--config", 8) == 0 || strncmp(word, "ATTND_CONFIG", 12) == 0;
}

static void split(char *at, const char *end, words *flags, words *environment)
{
    for (; at < end; at += strlen(at) + 1) {
        words *to = strncmp(at, "--", 2) == 0 ? flags : environment;
        if (to->count < WORDS && !names_file(at))
            to->list[to->count++] = at;
    }
}

static void check_bounds(const srv_config *config)
{
#define TEXT(value, least, most, name)                                                           \
    require((long long)strlen(value) >= (least) && (long long)strlen(value) <= (most), "length", \
            name)
#define INT(value, least, most, name) \
    require((value) >= (least) && (value) <= (most), "out of range", name)
#define REAL INT
#define BOOL(value, least, most, name)
#define SETTING(member, kind, fallback, least, most, help) \
    kind(config->member, least, most, #member);
#include "server/config.def"
#undef SETTING
#undef BOOL
#undef REAL
#undef INT
#undef TEXT
}

static bool is_same(const srv_config *a, const srv_config *b)
{
    bool same = true;
#define TEXT(member)                                       same = same && strcmp(a->member, b->member) == 0;
#define INT(member)                                        same = same && a->member == b->member;
#define REAL(member)                                       same = same && !(a->member < b->member || a->member > b->member);
#define BOOL                                               INT
#define SETTING(member, kind, fallback, least, most, help) kind(member)
#include "server/config.def"
#undef SETTING
#undef BOOL
#undef REAL
#undef INT
#undef TEXT
    return same;
}

/* A text that is not UTF-8 prints with U+FFFD and cannot come back the same. */
static bool is_utf8(const srv_config *config)
{
    bool all = true;
#define TEXT(member)                                  \
    do {                                              \
        json_t *string = json_string(config->member); \
        all = all && string;                          \
        json_decref(string);                          \
    } while (0);
#define INT(member)
#define REAL(member)
#define BOOL(member)
#define SETTING(member, kind, fallback, least, most, help) kind(member)
#include "server/config.def"
#undef SETTING
#undef BOOL
#undef REAL
#undef INT
#undef TEXT
    return all;
}

/* The same text as a file of rates: refused in a sentence, or every rate is one. */
static void check_calibration(const char *path)
{
    srv_calibration calibration;
    attn_error error = {0};
    attn_status status = srv_calibration_read(&calibration, path, ATTN_ISA_AVX2, &error);
    require(status == ATTN_OK || (status == error.status && error.message[0]), "no sentence", path);
    if (status != ATTN_OK)
        return;
#define RATE(member, fallback, what) \
    require(calibration.machine.member > 0 && calibration.machine.member <= 1e9, "rate", #member);
#include "attn/rates.def"
#undef RATE
#define RATE(member, fallback, what) \
    require(calibration.server.member > 0 && calibration.server.member <= 1e9, "rate", #member);
#include "server/cost/rates.def"
#undef RATE
}

static attn_status read_text(srv_config *config, const char *text, size_t size, words *flags,
                             words *environment, attn_error *error)
{
    char path[32], config_flag[] = "--config";
    bool check, print;
    int fd = open_text(text, size, path);
    flags->list[flags->count] = config_flag;
    flags->list[flags->count + 1] = path;
    attn_status status =
        srv_config_read(config, flags->list, environment->list, &check, &print, error);
    check_calibration(path);
    close(fd);
    return status;
}

static void check_round_trip(const srv_config *config)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    srv_config_print(config, out);
    fclose(out);
    json_t *printed = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    require(json_is_object(printed), "the printed configuration is not JSON", text);
    json_decref(printed);
    srv_config again;
    words none = {.count = 0}, nothing = {.count = 0};
    attn_error error = {0};
    attn_status status = read_text(&again, text, size, &none, &nothing, &error);
    if (is_utf8(config))
        require(status == ATTN_OK && is_same(config, &again), "it does not come back the same",
                error.message);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    size_t length = strlen(text);
    words flags = {.count = 0}, environment = {.count = 0};
    if (length < size)
        split(text + length + 1, text + size, &flags, &environment);
    srv_config config;
    attn_error error = {0};
    if (read_text(&config, text, length, &flags, &environment, &error) == ATTN_OK) {
        check_bounds(&config);
        check_round_trip(&config);
    } else {
        require(error.message[0] != '\0' && error.status != ATTN_OK, "no message", error.param);
    }
    free(text);
    return 0;
}
