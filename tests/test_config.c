/* The configuration: which place wins, what each key allows, and how mistakes are told. The table
 * config.def is expanded here too, so that a new key is tested without a line of its own. */
#include "server/config.h"
#include "tests/support/suite.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    size_t offset;
} setting;

static const setting settings[] = {
#define SETTING(member, kind, fallback, least, most, help) \
    {#member, kind, fallback, least, most, offsetof(srv_config, member)},
#include "server/config.def"
#undef SETTING
};

enum {
    SETTINGS = sizeof settings / sizeof *settings
};

/* Beside a string, what JSON may hold for each kind; a text may look like a number. */
static const char *const expectations[] = {
    [TEXT] = "an integer", [INT] = "an integer", [REAL] = "a number", [BOOL] = "true or false"};

/* Places a value can stand in, in rising order of weight. */
typedef enum place {
    IN_FILE,
    IN_ENVIRONMENT,
    IN_FLAG,
    PLACES,
} place;

static const char *const place_names[] = {"file", "environment", "flag"};

/* Reading */

/* Lists of strings that end in NULL, as main gets them. */
#define WORDS(...) ((char *const[]){__VA_ARGS__, NULL})
#define NO_WORDS   ((char *const[]){NULL})

static attn_status read_words(srv_config *config, char *const *arguments, char *const *environment,
                              attn_error *error)
{
    bool check, print;
    *error = (attn_error){0};
    return srv_config_read(config, arguments, environment, &check, &print, error);
}

typedef char path_text[32];

static void write_file(path_text path, const char *content, size_t length)
{
    strcpy(path, "/tmp/test_config.XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, content, length) != (ssize_t)length)
        abort();
    close(fd);
}

static attn_status read_content(srv_config *config, const char *content, attn_error *error)
{
    path_text path;
    write_file(path, content, strlen(content));
    attn_status status = read_words(config, WORDS("--config", path), NO_WORDS, error);
    unlink(path);
    return status;
}

static void print_flag(char flag[80], const char *key)
{
    snprintf(flag, 80, "--%s", key);
    for (char *c = flag + 2; *c; c++)
        *c = *c == '_' ? '-' : *c;
}

static void print_variable(char variable[512], const char *key, const char *value)
{
    int used = snprintf(variable, 512, "ATTND_%s=%s", key, value);
    for (char *c = variable; c < variable + used && *c != '='; c++)
        *c = *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
}

/* Read a configuration in which values[p] stands in place p, where it is not NULL. Values hold
 * nothing that JSON would escape. */
static attn_status read_places(srv_config *config, const char *key,
                               const char *const values[PLACES], attn_error *error)
{
    char content[512] = "{}", variable[512] = "UNRELATED=1", flag[80], value[400];
    path_text path;
    if (values[IN_FILE])
        snprintf(content, sizeof content, "{\"%s\": \"%s\"}", key, values[IN_FILE]);
    if (values[IN_ENVIRONMENT])
        print_variable(variable, key, values[IN_ENVIRONMENT]);
    print_flag(flag, key);
    snprintf(value, sizeof value, "%s", values[IN_FLAG] ? values[IN_FLAG] : "");
    write_file(path, content, strlen(content));
    char *const arguments[] = {"--config", path, values[IN_FLAG] ? flag : NULL, value, NULL};
    attn_status status = read_words(config, arguments, WORDS(variable), error);
    unlink(path);
    return status;
}

static attn_status read_in(srv_config *config, place where, const char *key, const char *value,
                           attn_error *error)
{
    const char *values[PLACES] = {NULL};
    values[where] = value;
    return read_places(config, key, values, error);
}

/* What a configuration holds, as text. */
static const char *value_of(const srv_config *config, const setting *s, char text[32])
{
    const void *at = (const char *)config + s->offset;
    switch (s->kind) {
    case TEXT:
        return at;
    case INT:
        snprintf(text, 32, "%lld", (long long)*(const int64_t *)at);
        break;
    case REAL:
        snprintf(text, 32, "%g", *(const double *)at);
        break;
    case BOOL:
        snprintf(text, 32, "%s", *(const bool *)at ? "true" : "false");
        break;
    }
    return text;
}

static void check_value(const srv_config *config, const setting *s, const char *expected,
                        const char *context)
{
    char text[32];
    const char *found = value_of(config, s, text);
    CHECK(strcmp(found, expected) == 0, "%s: %s is \"%s\", expected \"%s\"", context, s->key, found,
          expected);
}

static void check_refused(attn_status status, const attn_error *error, const char *param,
                          const char *message)
{
    CHECK(status == ATTN_INVALID && error->status == ATTN_INVALID, "expected \"%s\", got status %s",
          message, attn_status_name(status));
    CHECK(strcmp(error->param, param) == 0, "%s: param \"%s\", expected \"%s\"", message,
          error->param, param);
    CHECK(strstr(error->message, message) != NULL, "\"%s\", expected \"%s\"", error->message,
          message);
}

/* Which place wins */

static void defaults_are_those_of_the_table(void)
{
    srv_config config;
    attn_error error;
    memset(&config, 0xff, sizeof config);
    CHECK(read_words(&config, NO_WORDS, NO_WORDS, &error) == ATTN_OK, "%s", error.message);
    for (int i = 0; i < SETTINGS; i++)
        check_value(&config, &settings[i], settings[i].fallback, "default");
}

/* Three values that the setting allows and that are not its default, as far as there are three. */
static void make_values(const setting *s, char values[PLACES][32])
{
    for (int p = 0; p < PLACES; p++)
        switch (s->kind) {
        case TEXT:
            snprintf(values[p], 32, "value%d", p);
            break;
        case INT:
            snprintf(values[p], 32, "%lld", s->most - 1 - p);
            break;
        case REAL:
            snprintf(values[p], 32, "%g", (double)s->most - 0.25 * (p + 1));
            break;
        case BOOL:
            snprintf(values[p], 32, "%s", p % 2 ? "false" : "true");
            break;
        }
}

static void every_key_obeys_the_strongest_place(void)
{
    for (int i = 0; i < SETTINGS; i++) {
        char values[PLACES][32];
        make_values(&settings[i], values);
        for (unsigned given = 0; given < 1U << PLACES; given++) {
            const char *at[PLACES], *expected = settings[i].fallback;
            char context[40];
            srv_config config;
            attn_error error;
            for (int p = 0; p < PLACES; p++) {
                at[p] = given >> p & 1 ? values[p] : NULL;
                expected = at[p] ? at[p] : expected;
            }
            snprintf(context, sizeof context, "places %#x", given);
            attn_status status = read_places(&config, settings[i].key, at, &error);
            CHECK(status == ATTN_OK, "%s: %s: %s", context, settings[i].key, error.message);
            check_value(&config, &settings[i], expected, context);
            for (int other = 0; other < SETTINGS; other++)
                if (other != i)
                    check_value(&config, &settings[other], settings[other].fallback, context);
        }
    }
}

static void flags_are_written_either_way_and_the_last_wins(void)
{
    srv_config config;
    attn_error error;
    CHECK(read_words(&config, WORDS("--workers=3", "--listen", "[::1]:1", "--workers", "4"),
                     NO_WORDS, &error) == ATTN_OK,
          "%s", error.message);
    CHECK(config.workers == 4, "workers is %lld", (long long)config.workers);
    CHECK(strcmp(config.listen, "[::1]:1") == 0, "listen is %s", config.listen);
    CHECK(read_words(&config, WORDS("--listen=a=b", "--isa", "--x"), NO_WORDS, &error) == ATTN_OK,
          "%s", error.message);
    CHECK(strcmp(config.listen, "a=b") == 0, "listen is %s", config.listen);
    CHECK(strcmp(config.isa, "--x") == 0, "what follows a flag is its value: %s", config.isa);
}

static void the_environment_may_name_the_file(void)
{
    srv_config config;
    attn_error error;
    path_text weak, strong;
    char variable[64];
    write_file(weak, "{\"workers\": 1, \"isa\": \"x\"}", 26);
    write_file(strong, "{\"workers\": 2}", 14);
    snprintf(variable, sizeof variable, "ATTND_CONFIG=%s", weak);
    CHECK(read_words(&config, NO_WORDS, WORDS("HOME=/", variable), &error) == ATTN_OK, "%s",
          error.message);
    CHECK(config.workers == 1 && strcmp(config.isa, "x") == 0, "the variable's file is read");
    CHECK(read_words(&config, WORDS("--config", strong), WORDS(variable), &error) == ATTN_OK, "%s",
          error.message);
    CHECK(config.workers == 2 && strcmp(config.isa, "auto") == 0, "the flag's file replaces it");
    CHECK(read_words(&config, WORDS("--config", "/nowhere", "--config", strong), NO_WORDS,
                     &error) == ATTN_OK,
          "the last --config is read: %s", error.message);
    unlink(weak);
    unlink(strong);
}

static void other_variables_are_left_alone(void)
{
    static char *const others[] = {
        "ATTND=1",   "ATTND_", "attnd_workers=3", "XATTND_WORKER=3", "ATTNDWORKER=3", "", "=",
        "WORKERS=3", NULL};
    srv_config config;
    attn_error error;
    CHECK(read_words(&config, NO_WORDS, others, &error) == ATTN_OK, "%s", error.message);
    for (int i = 0; i < SETTINGS; i++)
        check_value(&config, &settings[i], settings[i].fallback, "unrelated variables");
}

static void switches_are_told_apart(void)
{
    static const struct {
        char *arguments[3];
        bool check, print;
    } list[] = {
        {{NULL}, false, false},
        {{"--check-config", NULL}, true, false},
        {{"--print-config", NULL}, false, true},
        {{"--print-config", "--check-config", NULL}, true, true},
        {{"--workers", "--check-config", NULL}, false, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        srv_config config;
        attn_error error = {0};
        bool check = !list[i].check, print = !list[i].print;
        srv_config_read(&config, list[i].arguments, NO_WORDS, &check, &print, &error);
        CHECK(check == list[i].check && print == list[i].print, "case %zu: check %d, print %d", i,
              check, print);
    }
    srv_config config;
    attn_error error;
    check_refused(read_words(&config, WORDS("--check-config=no"), NO_WORDS, &error), &error,
                  "check_config", "--check-config=no takes no value");
}

/* What each key allows */

static void check_allowed(const setting *s, const char *value)
{
    for (place p = IN_FILE; p < PLACES; p++) {
        srv_config config;
        attn_error error;
        attn_status status = read_in(&config, p, s->key, value, &error);
        CHECK(status == ATTN_OK, "%s: %s", place_names[p], error.message);
        if (status == ATTN_OK)
            check_value(&config, s, value, place_names[p]);
    }
}

static void check_forbidden(const setting *s, const char *value, const char *message)
{
    static const char *const spelled[] = {"/tmp/test_config.", "environment: ", "command line: "};
    for (place p = IN_FILE; p < PLACES; p++) {
        srv_config config;
        attn_error error;
        check_refused(read_in(&config, p, s->key, value, &error), &error, s->key, message);
        CHECK(strncmp(error.message, spelled[p], strlen(spelled[p])) == 0,
              "\"%s\" does not begin with \"%s\"", error.message, spelled[p]);
    }
}

static void check_int(const setting *s)
{
    static const char *const wrong[] = {
        "",
        " ",
        "-",
        " 1",
        "1 ",
        "+1",
        "1e3",
        "0x10",
        "1.0",
        "true",
        "1,000",
        "1_000",
        "--1",
        "1KiB",
        "null",
        "\xc2\xb2",
        "99999999999999999999",
        "-99999999999999999999",
    };
    char value[32], message[120];
    snprintf(value, sizeof value, "%lld", s->least);
    check_allowed(s, value);
    snprintf(value, sizeof value, "%lld", s->most);
    check_allowed(s, value);
    snprintf(message, sizeof message, "expected an integer from %lld to %lld", s->least, s->most);
    snprintf(value, sizeof value, "%lld", s->least - 1);
    check_forbidden(s, value, message);
    snprintf(value, sizeof value, "%lld", s->most + 1);
    check_forbidden(s, value, message);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_forbidden(s, wrong[i], message);
}

static void check_text(const setting *s)
{
    char value[SRV_CONFIG_TEXT + 1], message[120];
    CHECK(s->most < SRV_CONFIG_TEXT, "%s: %lld bytes do not fit", s->key, s->most);
    memset(value, 'x', sizeof value);
    value[s->most + 1] = '\0';
    snprintf(message, sizeof message, "has %lld characters, expected %lld to %lld", s->most + 1,
             s->least, s->most);
    check_forbidden(s, value, message);
    value[s->most] = '\0';
    check_allowed(s, value);
    value[s->least] = '\0';
    check_allowed(s, value);
    snprintf(message, sizeof message, "has 0 characters, expected %lld to %lld", s->least, s->most);
    if (s->least > 0)
        check_forbidden(s, "", message);
}

static void check_real(const setting *s)
{
    static const char *const wrong[] = {"",    "x",     "0.5x", "0,5", "nan",
                                        "inf", "1e999", "true", " 1",  "1 "};
    char value[32], message[120];
    snprintf(message, sizeof message, "expected a number from %lld to %lld", s->least, s->most);
    snprintf(value, sizeof value, "%lld", s->least);
    check_allowed(s, value);
    snprintf(value, sizeof value, "%lld", s->most);
    check_allowed(s, value);
    snprintf(value, sizeof value, "%g", (double)s->most + 0.5);
    check_forbidden(s, value, message);
    snprintf(value, sizeof value, "%g", (double)s->least - 0.5);
    check_forbidden(s, value, message);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_forbidden(s, wrong[i], message);
}

static void check_bool(const setting *s)
{
    static const char *const wrong[] = {"", "True", "yes", "1", "0", "true "};
    check_allowed(s, "true");
    check_allowed(s, "false");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_forbidden(s, wrong[i], "expected true or false");
}

static void every_range_has_its_ends(void)
{
    static void (*const checks[])(const setting *) = {
        [TEXT] = check_text, [INT] = check_int, [REAL] = check_real, [BOOL] = check_bool};
    for (int i = 0; i < SETTINGS; i++)
        checks[settings[i].kind](&settings[i]);
}

static void a_default_is_a_value_that_could_be_given(void)
{
    for (int i = 0; i < SETTINGS; i++)
        check_allowed(&settings[i], settings[i].fallback);
}

/* Mistakes */

static void check_nearest(const char *wrong, const char *right)
{
    for (place p = IN_FILE; p < PLACES; p++) {
        char flag[80], variable[512], message[600];
        srv_config config;
        attn_error error;
        print_flag(flag, right);
        print_variable(variable, right, "");
        variable[strcspn(variable, "=")] = '\0';
        const char *const spelled[] = {
            [IN_FILE] = right, [IN_ENVIRONMENT] = variable, [IN_FLAG] = flag};
        snprintf(message, sizeof message, p == IN_FILE ? "nearest is \"%s\"" : "the nearest is %s",
                 spelled[p]);
        check_refused(read_in(&config, p, wrong, "1", &error), &error, wrong, message);
    }
}

/* A key with one character left out is one step from itself, and further from every other. */
static void an_unknown_key_is_told_its_nearest(void)
{
    for (int i = 0; i < SETTINGS; i++) {
        size_t length = strlen(settings[i].key);
        for (size_t gone = 0; gone < length; gone++) {
            char wrong[64];
            snprintf(wrong, sizeof wrong, "%.*s%s", (int)gone, settings[i].key,
                     settings[i].key + gone + 1);
            check_nearest(wrong, settings[i].key);
        }
    }
    check_nearest("loglevel", "log_level");
    check_nearest("memory_limit", "memory_limit_bytes");
}

static void a_flag_without_its_value(void)
{
    for (int i = 0; i < SETTINGS; i++) {
        char flag[80], message[120];
        srv_config config;
        attn_error error;
        print_flag(flag, settings[i].key);
        snprintf(message, sizeof message, "%s needs a value", flag);
        check_refused(read_words(&config, WORDS(flag), NO_WORDS, &error), &error, settings[i].key,
                      message);
        check_refused(read_words(&config, WORDS("--check-config", flag), NO_WORDS, &error), &error,
                      settings[i].key, message);
    }
    srv_config config;
    attn_error error;
    check_refused(read_words(&config, WORDS("--config"), NO_WORDS, &error), &error, "config",
                  "--config needs a value");
}

static void what_is_no_flag(void)
{
    static char *const wrong[] = {"serve", "-w", "workers=3", "", "-", "3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[80];
        srv_config config;
        attn_error error;
        snprintf(message, sizeof message, "found \"%s\", expected a --flag", wrong[i]);
        check_refused(read_words(&config, WORDS("--workers", "3", wrong[i]), NO_WORDS, &error),
                      &error, wrong[i], message);
    }
    srv_config config;
    attn_error error;
    char endless[2000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    CHECK(read_words(&config, WORDS(endless), NO_WORDS, &error) == ATTN_INVALID, "a long word");
    endless[0] = endless[1] = '-';
    CHECK(read_words(&config, WORDS(endless), NO_WORDS, &error) == ATTN_INVALID, "a long flag");
    memcpy(endless, "ATTND_X=", 8);
    CHECK(read_words(&config, NO_WORDS, WORDS(endless), &error) == ATTN_INVALID, "a long value");
    endless[7] = 'X';
    endless[1990] = '=';
    CHECK(read_words(&config, NO_WORDS, WORDS(endless), &error) == ATTN_INVALID, "a long variable");
    CHECK(read_words(&config, WORDS("--"), NO_WORDS, &error) == ATTN_INVALID, "only dashes");
}

typedef struct refusal {
    const char *content, *param, *message;
} refusal;

static void check_contents(const refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        srv_config config;
        attn_error error;
        check_refused(read_content(&config, list[i].content, &error), &error, list[i].param,
                      list[i].message);
    }
}

static void files_that_cannot_be_read(void)
{
    static const refusal list[] = {
        {"", "config", "line 1: "},
        {"{", "config", "line 1: "},
        {"workers: 4", "config", "line 1: "},
        {"{\"workers\": 4", "config", "line 1: "},
        {"{\n\"workers\": 4,\n}", "config", "line 3: "},
        {"{'workers': 4}", "config", "line 1: "},
        {"{\"workers\": 4} {}", "config", "line 1: "},
        {"{\"workers\": 04}", "config", "line 1: "},
        {"{\"workers\": NaN}", "config", "line 1: "},
        {"{\"workers\": 99999999999999999999}", "config", "too big integer"},
        {"{\"listen\": \"\xff\"}", "config", "line 1: "},
        {"{\"listen\": \"a\\u0000b\"}", "config", "line 1: "},
        {"{\"workers\": 1, \"workers\": 1}", "config", "duplicate object key"},
        {"{\"workers\": 1,\n \"w\\u006frkers\": 2}", "config", "line 2: duplicate object key"},
        {"[]", "config", "expected a JSON object"},
        {"[{\"workers\": 4}]", "config", "expected a JSON object"},
        {"\"workers\"", "config", "line 1: "},
        {"null", "config", "line 1: "},
    };
    check_contents(list, sizeof list / sizeof *list);
}

static void members_of_a_wrong_type(void)
{
    static const char *const values[] = {"null", "true", "false", "[]", "[4]", "{}", "4.0", "1e3"};
    for (int s = 0; s < SETTINGS; s++) {
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            char content[120], message[120];
            snprintf(content, sizeof content, "{\"%s\": %s}", settings[s].key, values[i]);
            bool number = values[i][0] == '4' || values[i][0] == '1';
            bool word = values[i][0] == 't' || values[i][0] == 'f';
            if ((settings[s].kind == REAL && number) || (settings[s].kind == BOOL && word))
                continue;
            snprintf(message, sizeof message, "%s is neither a string nor %s", settings[s].key,
                     expectations[settings[s].kind]);
            check_contents(&(refusal){content, settings[s].key, message}, 1);
        }
    }
}

static void files_that_are_not_there(void)
{
    srv_config config;
    attn_error error;
    check_refused(read_words(&config, WORDS("--config", "/nowhere/at all"), NO_WORDS, &error),
                  &error, "config", "/nowhere/at all: No such file");
    check_refused(read_words(&config, WORDS("--config="), NO_WORDS, &error), &error, "config",
                  "No such file");
    CHECK(strstr(error.message, "-1") == NULL, "a line that there is not: %s", error.message);
    check_refused(read_words(&config, NO_WORDS, WORDS("ATTND_CONFIG=/nowhere"), &error), &error,
                  "config", "/nowhere: No such file");
    CHECK(read_words(&config, WORDS("--config", "/tmp"), NO_WORDS, &error) == ATTN_INVALID,
          "a folder is read as a file");
}

static void numbers_need_no_quotes_in_a_file(void)
{
    srv_config config;
    attn_error error;
    CHECK(read_content(&config, "{\"workers\": 4, \"listen\": 80, \"drain_delay_s\": \"7\"}",
                       &error) == ATTN_OK,
          "%s", error.message);
    CHECK(config.workers == 4 && config.drain_delay_s == 7 && strcmp(config.listen, "80") == 0,
          "workers %lld, drain_delay_s %lld, listen %s", (long long)config.workers,
          (long long)config.drain_delay_s, config.listen);
    CHECK(read_content(&config, "{}", &error) == ATTN_OK, "an empty object: %s", error.message);
    check_contents(&(refusal){"{\"workers\": -1}", "workers", "is \"-1\", expected"}, 1);
}

/* Printing */

static char *print_config(const srv_config *config, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        abort();
    srv_config_print(config, out);
    fclose(out);
    return text;
}

static void check_round_trip(const srv_config *config, const char *context)
{
    size_t length;
    char *text = print_config(config, &length);
    path_text path;
    srv_config back;
    attn_error error;
    write_file(path, text, length);
    CHECK(read_words(&back, WORDS("--config", path), NO_WORDS, &error) == ATTN_OK, "%s: %s",
          context, error.message);
    for (int i = 0; i < SETTINGS; i++) {
        char number[32];
        check_value(&back, &settings[i], value_of(config, &settings[i], number), context);
    }
    unlink(path);
    free(text);
}

static void what_is_printed_reads_back(void)
{
    srv_config config;
    attn_error error;
    read_words(&config, NO_WORDS, NO_WORDS, &error);
    check_round_trip(&config, "defaults");
    for (int i = 0; i < SETTINGS; i++) {
        int64_t most = settings[i].most;
        void *at = (char *)&config + settings[i].offset;
        switch (settings[i].kind) {
        case TEXT:
            snprintf(at, (size_t)most + 1, "%s", "\"\\\b\n\x7f/\xc3\xbc \x01 <&> 'x'");
            break;
        case INT:
            *(int64_t *)at = most;
            break;
        case REAL:
            *(double *)at = (double)most / 3;
            break;
        case BOOL:
            *(bool *)at = true;
            break;
        }
    }
    check_round_trip(&config, "odd values");
}

static void help_names_every_flag(void)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        abort();
    srv_config_help(out);
    fclose(out);
    for (int i = 0; i < SETTINGS; i++) {
        char flag[84], fallback[240];
        snprintf(flag, sizeof flag, "  ");
        print_flag(flag + 2, settings[i].key);
        snprintf(fallback, sizeof fallback, " [%s]\n", settings[i].fallback);
        const char *line = strstr(text, flag);
        CHECK(line && strstr(line, fallback), "%s with its default is not in the help", flag);
    }
    free(text);
}

static const test_case cases[] = {
    {"defaults are those of the table", defaults_are_those_of_the_table},
    {"every key obeys the strongest place", every_key_obeys_the_strongest_place},
    {"flags are written either way", flags_are_written_either_way_and_the_last_wins},
    {"the environment may name the file", the_environment_may_name_the_file},
    {"other variables are left alone", other_variables_are_left_alone},
    {"switches are told apart", switches_are_told_apart},
    {"every range has its ends", every_range_has_its_ends},
    {"a default is a value that could be given", a_default_is_a_value_that_could_be_given},
    {"an unknown key is told its nearest", an_unknown_key_is_told_its_nearest},
    {"a flag without its value", a_flag_without_its_value},
    {"what is no flag", what_is_no_flag},
    {"files that cannot be read", files_that_cannot_be_read},
    {"members of a wrong type", members_of_a_wrong_type},
    {"files that are not there", files_that_are_not_there},
    {"numbers need no quotes in a file", numbers_need_no_quotes_in_a_file},
    {"what is printed reads back", what_is_printed_reads_back},
    {"help names every flag", help_names_every_flag},
    {NULL, NULL},
};

int main(void)
{
    return test_main("config", cases);
}
