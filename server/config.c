/* One table of keys; a value is text first, wherever it stood, and is checked in one place. */
#include "server/config.h"

#include "attn/nearest.h"
#include "server/flat.h"
#include "server/text.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    TEXT,
    INT,
    REAL,
    BOOL,
} kind;

typedef struct setting {
    const char *key;
    kind kind;
    const char *fallback;
    long long least, most;
    const char *help;
    size_t offset;
} setting;

static const setting settings[] = {
#define SETTING(member, kind, fallback, least, most, help) \
    {#member, kind, fallback, least, most, help, offsetof(srv_config, member)},
#include "server/config.def"
#undef SETTING
};
enum {
    SETTINGS = sizeof settings / sizeof *settings,
    KEY_BYTES = 64,
    FLAG_BYTES = KEY_BYTES + 8,
};

static const char *const expectations[] = {
    [TEXT] = "an integer", [INT] = "an integer", [REAL] = "a number", [BOOL] = "true or false"};

static const char where_they_are[] = "attnd --help lists those there are";

static const char *key_at(int index)
{
    return index < SETTINGS ? settings[index].key : NULL;
}

static const setting *find(const char *key)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(settings[i].key, key) == 0)
            return &settings[i];
    return NULL;
}

/* "max_body_bytes" as the flag "--max-body-bytes". */
static void print_flag(char flag[FLAG_BYTES], const char *key)
{
    snprintf(flag, FLAG_BYTES, "--%s", key);
    for (char *c = flag + 2; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

static attn_status unknown(const char *where, const char *key, attn_error *error)
{
    const char *nearest = attn_nearest(key, key_at);
    if (!nearest)
        return attn_error_set(error, ATTN_INVALID, key, "%s: unknown key \"%.40s\"; %s", where, key,
                              where_they_are);
    return attn_error_set(error, ATTN_INVALID, key,
                          "%s: unknown key \"%.40s\"; the nearest is \"%s\"", where, key, nearest);
}

static attn_status unknown_variable(const char *entry, const char *key, attn_error *error)
{
    const char *nearest = attn_nearest(key, key_at);
    char spelt[FLAG_BYTES];
    int length = (int)strcspn(entry, "=");
    if (!nearest)
        return attn_error_set(error, ATTN_INVALID, key, "environment: unknown variable %.*s; %s",
                              length, entry, where_they_are);
    snprintf(spelt, sizeof spelt, "%s", nearest);
    for (char *c = spelt; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return attn_error_set(error, ATTN_INVALID, key,
                          "environment: unknown variable %.*s; the nearest is ATTND_%s", length,
                          entry, spelt);
}

static attn_status unknown_flag(const char *typed, const char *key, attn_error *error)
{
    const char *nearest = attn_nearest(key, key_at);
    char spelt[FLAG_BYTES];
    if (!nearest)
        return attn_error_set(error, ATTN_INVALID, key, "command line: unknown flag %.40s; %s",
                              typed, where_they_are);
    print_flag(spelt, nearest);
    return attn_error_set(error, ATTN_INVALID, key,
                          "command line: unknown flag %.40s; the nearest is %s", typed, spelt);
}

static attn_status set_text(srv_config *config, const setting *s, const char *where,
                            const char *value, attn_error *error)
{
    size_t length = strlen(value);
    if ((long long)length < s->least || (long long)length > s->most)
        return attn_error_set(error, ATTN_INVALID, s->key,
                              "%s: %s has %zu characters, expected %lld to %lld", where, s->key,
                              length, s->least, s->most);
    memcpy((char *)config + s->offset, value, length + 1);
    return ATTN_OK;
}

static attn_status set_int(srv_config *config, const setting *s, const char *where,
                           const char *value, attn_error *error)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    bool whole = isdigit((unsigned char)value[value[0] == '-']) && *end == '\0' && errno == 0;
    if (!whole || number < s->least || number > s->most)
        return attn_error_set(error, ATTN_INVALID, s->key,
                              "%s: %s is \"%.40s\", expected an integer from %lld to %lld", where,
                              s->key, value, s->least, s->most);
    *(int64_t *)(void *)((char *)config + s->offset) = number;
    return ATTN_OK;
}

static attn_status set_real(srv_config *config, const setting *s, const char *where,
                            const char *value, attn_error *error)
{
    char *end;
    double number = strtod(value, &end);
    bool whole = end != value && *end == '\0' && !isspace((unsigned char)value[0]);
    if (!whole || !(number >= (double)s->least && number <= (double)s->most))
        return attn_error_set(error, ATTN_INVALID, s->key,
                              "%s: %s is \"%.40s\", expected a number from %lld to %lld", where,
                              s->key, value, s->least, s->most);
    *(double *)(void *)((char *)config + s->offset) = number;
    return ATTN_OK;
}

static attn_status set_bool(srv_config *config, const setting *s, const char *where,
                            const char *value, attn_error *error)
{
    bool yes = strcmp(value, "true") == 0;
    if (!yes && strcmp(value, "false") != 0)
        return attn_error_set(error, ATTN_INVALID, s->key,
                              "%s: %s is \"%.40s\", expected true or false", where, s->key, value);
    *(bool *)(void *)((char *)config + s->offset) = yes;
    return ATTN_OK;
}

static attn_status set(srv_config *config, const setting *s, const char *where, const char *value,
                       attn_error *error)
{
    switch (s->kind) {
    case TEXT:
        return set_text(config, s, where, value, error);
    case INT:
        return set_int(config, s, where, value, error);
    case REAL:
        return set_real(config, s, where, value, error);
    case BOOL:
        break;
    }
    return set_bool(config, s, where, value, error);
}

static attn_status read_fallbacks(srv_config *config, attn_error *error)
{
    memset(config, 0, sizeof *config);
    attn_status status = ATTN_OK;
    for (int i = 0; i < SETTINGS && status == ATTN_OK; i++)
        status = set(config, &settings[i], "default", settings[i].fallback, error);
    return status;
}

static attn_status read_member(void *context, const char *path, const char *key,
                               const srv_flat_value *value, attn_error *error)
{
    const setting *s = find(key);
    if (!s)
        return unknown(path, key, error);
    bool fits = value->kind == SRV_FLAT_TEXT || (value->kind == SRV_FLAT_INT && s->kind != BOOL) ||
                (value->kind == SRV_FLAT_BOOL && s->kind == BOOL) ||
                (value->kind == SRV_FLAT_REAL && s->kind == REAL);
    if (fits)
        return set(context, s, path, value->text, error);
    return attn_error_set(error, ATTN_INVALID, key, "%s: %s is neither a string nor %s", path, key,
                          expectations[s->kind]);
}

/* "ATTND_MAX_BODY_BYTES=…" becomes the key max_body_bytes; false for other variables. */
static bool environment_key(const char *entry, char key[KEY_BYTES])
{
    static const char prefix[] = "ATTND_";
    const char *equals = strchr(entry, '=');
    if (!equals || strncmp(entry, prefix, sizeof prefix - 1) != 0)
        return false;
    size_t length = (size_t)(equals - entry) - (sizeof prefix - 1);
    if (length >= KEY_BYTES)
        length = KEY_BYTES - 1;
    for (size_t i = 0; i < length; i++)
        key[i] = (char)tolower((unsigned char)entry[sizeof prefix - 1 + i]);
    key[length] = '\0';
    return true;
}

/* ATTND_CONFIG, or NULL. */
static const char *environment_file(char *const *environment)
{
    static const char name[] = "ATTND_CONFIG=";
    for (char *const *entry = environment; *entry; entry++)
        if (strncmp(*entry, name, sizeof name - 1) == 0)
            return *entry + sizeof name - 1;
    return NULL;
}

static attn_status read_environment(srv_config *config, char *const *environment, attn_error *error)
{
    for (char *const *entry = environment; *entry; entry++) {
        char key[KEY_BYTES];
        if (!environment_key(*entry, key) || strcmp(key, "config") == 0)
            continue;
        const setting *s = find(key);
        attn_status status = s ? set(config, s, "environment", strchr(*entry, '=') + 1, error)
                               : unknown_variable(*entry, key, error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

/* What the command line says. */
typedef struct arguments {
    srv_config *config; /* NULL in the first pass */
    const char *file;   /* --config */
    bool check, print;
} arguments;

/* "--max-body-bytes" or "--max-body-bytes=…" becomes max_body_bytes; the value, if any, follows. */
static bool flag_key(const char *argument, char key[KEY_BYTES], const char **value)
{
    if (strncmp(argument, "--", 2) != 0)
        return false;
    const char *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument - 2) : strlen(argument + 2);
    if (length >= KEY_BYTES)
        length = KEY_BYTES - 1;
    for (size_t i = 0; i < length; i++)
        key[i] = argument[i + 2] == '-' ? '_' : argument[i + 2];
    key[length] = '\0';
    *value = equals ? equals + 1 : NULL;
    return true;
}

static attn_status needs_value(const setting *s, const char *key, attn_error *error)
{
    char flag[FLAG_BYTES];
    print_flag(flag, key);
    return attn_error_set(error, ATTN_INVALID, key, "command line: %s needs a value%s", flag,
                          s && s->kind == BOOL ? ", true or false" : "");
}

/* Apply the flags, or with `config` NULL only note --config and the switches. */
static attn_status read_flags(arguments *a, char *const *list, attn_error *error)
{
    for (; *list; list++) {
        char key[KEY_BYTES];
        const char *value;
        if (!flag_key(*list, key, &value))
            return attn_error_set(error, ATTN_INVALID, *list,
                                  "command line: found \"%.40s\", expected a --flag", *list);
        if (strcmp(key, "check_config") == 0 || strcmp(key, "print_config") == 0) {
            if (value)
                return attn_error_set(error, ATTN_INVALID, key,
                                      "command line: %.40s takes no value", *list);
            *(key[0] == 'c' ? &a->check : &a->print) = true;
            continue;
        }
        const setting *s = find(key);
        if (!s && strcmp(key, "config") != 0)
            return unknown_flag(*list, key, error);
        if (!value && !(value = *++list))
            return needs_value(s, key, error);
        attn_status status = ATTN_OK;
        if (s && s->kind == BOOL && strncmp(value, "--", 2) == 0)
            return needs_value(s, key, error);
        if (!s)
            a->file = value;
        else if (a->config)
            status = set(a->config, s, "command line", value, error);
        if (status != ATTN_OK)
            return status;
    }
    return ATTN_OK;
}

attn_status srv_config_read(srv_config *config, char *const *list, char *const *environment,
                            bool *check, bool *print, attn_error *error)
{
    arguments a = {.file = environment_file(environment)};
    attn_status status = read_flags(&a, list, error);
    if (status == ATTN_OK)
        status = read_fallbacks(config, error);
    if (status == ATTN_OK && a.file)
        status = srv_flat_read(a.file, "config", read_member, config, error);
    if (status == ATTN_OK)
        status = read_environment(config, environment, error);
    a.config = config;
    if (status == ATTN_OK)
        status = read_flags(&a, list, error);
    *check = a.check;
    *print = a.print;
    return status;
}

bool srv_config_is_explicit(const srv_config *config)
{
    return strcmp(config->model_control, "explicit") == 0;
}

void srv_config_help(FILE *out)
{
    for (int i = 0; i < SETTINGS; i++) {
        const setting *s = &settings[i];
        char flag[FLAG_BYTES];
        print_flag(flag, s->key);
        fprintf(out, "  %-22s %s [%s]\n", flag, s->help, s->fallback);
    }
}

static void print_value(const setting *s, const void *value, srv_text *text)
{
    switch (s->kind) {
    case TEXT:
        srv_text_json(text, value);
        break;
    case INT:
        srv_text_int(text, *(const int64_t *)value);
        break;
    case REAL:
        srv_text_real(text, *(const double *)value);
        break;
    case BOOL:
        srv_text_string(text, *(const bool *)value ? "true" : "false");
        break;
    }
}

void srv_config_print(const srv_config *config, FILE *out)
{
    srv_text text = SRV_TEXT_EMPTY;
    for (int i = 0; i < SETTINGS; i++) {
        const void *value = (const char *)config + settings[i].offset;
        srv_text_string(&text, i ? ",\n  " : "{\n  ");
        srv_text_json(&text, settings[i].key);
        srv_text_string(&text, ": ");
        print_value(&settings[i], value, &text);
    }
    srv_text_string(&text, "\n}\n");
    fputs(text.failed ? "out of memory\n" : text.data, out);
    srv_text_free(&text);
}
