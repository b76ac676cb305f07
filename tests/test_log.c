/* Log lines as a reader of the pipe sees them. */
#include "server/log.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A log into a pipe that never waits, and the pipe's other end. */
typedef struct piped_log {
    srv_log log;
    int reader, writer;
} piped_log;

static void open_piped(piped_log *piped, srv_log_format format, srv_log_level level)
{
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0, "no pipe: errno %d", errno);
    piped->reader = ends[0];
    piped->writer = ends[1];
    srv_log_init(&piped->log, piped->writer, format, level);
}

static void close_piped(piped_log *piped)
{
    close(piped->reader);
    close(piped->writer);
}

/* What the pipe holds, as a string. */
static const char *read_piped(piped_log *piped, char *to, size_t size)
{
    ssize_t length = read(piped->reader, to, size - 1);
    to[length > 0 ? length : 0] = '\0';
    return to;
}

/* Read one line as a JSON object; the caller decrefs it. */
static json_t *read_json(piped_log *piped)
{
    char line[2 * SRV_LOG_LINE_BYTES];
    json_error_t error;
    read_piped(piped, line, sizeof line);
    size_t length = strlen(line);
    CHECK(length > 0 && length <= SRV_LOG_LINE_BYTES, "a line of %zu bytes", length);
    CHECK(length > 0 && strchr(line, '\n') == line + length - 1, "not one line: %s", line);
    json_t *read = json_loads(line, JSON_REJECT_DUPLICATES, &error);
    CHECK(read != NULL, "jansson: %s in %s", error.text, line);
    return read;
}

static const char *string_of(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "(none)";
}

static void json_fields_keep_their_types(void)
{
    piped_log piped;
    open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
    const srv_log_field fields[] = {
        srv_log_string("route", "/v1/attend"),
        srv_log_string("absent", NULL),
        srv_log_int("code", 200),
        srv_log_int("least", INT64_MIN),
        srv_log_real("ms", 0.25),
        srv_log_real("ratio", NAN),
        srv_log_bool("yes", true),
        srv_log_bool("no", false),
    };
    srv_log_event(&piped.log, SRV_LOG_INFO, "request", fields, COUNT_OF(fields));
    json_t *line = read_json(&piped);
    CHECK(strcmp(string_of(line, "level"), "info") == 0, "level %s", string_of(line, "level"));
    CHECK(strcmp(string_of(line, "msg"), "request") == 0, "msg %s", string_of(line, "msg"));
    CHECK(strcmp(string_of(line, "route"), "/v1/attend") == 0, "%s", string_of(line, "route"));
    CHECK(!json_object_get(line, "absent"), "a NULL string must leave its field out");
    CHECK(json_integer_value(json_object_get(line, "code")) == 200, "code");
    CHECK(json_integer_value(json_object_get(line, "least")) == INT64_MIN, "least");
    CHECK(json_real_value(json_object_get(line, "ms")) == 0.25, "ms");
    CHECK(json_is_null(json_object_get(line, "ratio")), "NaN must be null");
    CHECK(json_is_true(json_object_get(line, "yes")), "yes");
    CHECK(json_is_false(json_object_get(line, "no")), "no");
    CHECK(json_object_size(line) == 3 + COUNT_OF(fields) - 1, "%zu keys", json_object_size(line));
    json_decref(line);
    close_piped(&piped);
}

/* time() reads a clock that may still be in the second before. */
static time_t seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

static void time_is_rfc3339(void)
{
    piped_log piped;
    open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
    setenv("TZ", "Asia/Kathmandu", 1);
    time_t before = seconds_now();
    srv_log_event(&piped.log, SRV_LOG_WARN, "now", NULL, 0);
    time_t after = seconds_now();
    unsetenv("TZ");
    json_t *line = read_json(&piped);
    const char *ts = string_of(line, "ts");
    struct tm utc = {0};
    const char *rest = strptime(ts, "%Y-%m-%dT%H:%M:%S", &utc);
    time_t then = timegm(&utc);
    CHECK(rest && then >= before && then <= after, "ts %s", ts);
    CHECK(rest && strlen(rest) == 5 && rest[0] == '.' && strspn(rest + 1, "0123456789") == 3 &&
              rest[4] == 'Z',
          "ts %s", ts);
    json_decref(line);
    close_piped(&piped);
}

static void text_is_for_people(void)
{
    piped_log piped;
    char line[SRV_LOG_LINE_BYTES + 1];
    open_piped(&piped, SRV_LOG_TEXT, SRV_LOG_DEBUG);
    const srv_log_field fields[] = {srv_log_string("route", "/v1/attend"),
                                    srv_log_int("code", 200),
                                    srv_log_real("ms", 1.5),
                                    srv_log_bool("ok", true),
                                    srv_log_string("a", ""),
                                    srv_log_string("b", "x y"),
                                    srv_log_string("c", "k=v"),
                                    srv_log_string("d", "\n")};
    srv_log_event(&piped.log, SRV_LOG_WARN, "two words", fields, COUNT_OF(fields));
    read_piped(&piped, line, sizeof line);
    const char *expected = " warn  two words route=/v1/attend code=200 ms=1.5 ok=true a=\"\" "
                           "b=\"x y\" c=\"k=v\" d=\"\\n\"\n";
    CHECK(strlen(line) > 24 && strcmp(line + 24, expected) == 0, "line: %s", line);
    CHECK(line[10] == 'T' && line[23] == 'Z', "line: %s", line);
    srv_log_event(&piped.log, SRV_LOG_INFO, "no\nsecond line", NULL, 0);
    read_piped(&piped, line, sizeof line);
    CHECK(strcmp(line + 24, " info  \"no\\nsecond line\"\n") == 0, "line: %s", line);
    close_piped(&piped);
}

static void lower_levels_are_silent(void)
{
    for (srv_log_level least = SRV_LOG_DEBUG; least <= SRV_LOG_ERROR; least++)
        for (srv_log_level level = SRV_LOG_DEBUG; level <= SRV_LOG_ERROR; level++) {
            piped_log piped;
            char line[SRV_LOG_LINE_BYTES + 1];
            open_piped(&piped, SRV_LOG_JSON, least);
            srv_log_event(&piped.log, level, "event", NULL, 0);
            bool written = read_piped(&piped, line, sizeof line)[0] != '\0';
            CHECK(written == (level >= least), "level %d with least %d", (int)level, (int)least);
            close_piped(&piped);
        }
}

static void names_are_found(void)
{
    srv_log_level level = SRV_LOG_INFO;
    srv_log_format format = SRV_LOG_JSON;
    CHECK(srv_log_level_find("debug", &level) && level == SRV_LOG_DEBUG, "debug");
    CHECK(srv_log_level_find("error", &level) && level == SRV_LOG_ERROR, "error");
    CHECK(!srv_log_level_find("loud", &level) && level == SRV_LOG_ERROR, "loud");
    CHECK(!srv_log_level_find("", &level), "the empty name");
    CHECK(srv_log_format_find("text", &format) && format == SRV_LOG_TEXT, "text");
    CHECK(!srv_log_format_find("JSON", &format) && format == SRV_LOG_TEXT, "JSON");
}

static void hostile_strings_are_tamed(void)
{
    piped_log piped;
    open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
    srand(3);
    for (int round = 0; round < 500; round++) {
        char string[64];
        for (size_t i = 0; i < sizeof string - 1; i++)
            string[i] = (char)(1 + rand() % 255);
        string[sizeof string - 1] = '\0';
        srv_log_field field = srv_log_string("name", string);
        srv_log_event(&piped.log, SRV_LOG_INFO, string, &field, 1);
        json_t *line = read_json(&piped);
        CHECK(json_object_size(line) == 4, "round %d: %zu keys", round, json_object_size(line));
        json_decref(line);
    }
    close_piped(&piped);
}

/* However much there is to say: one JSON line within the bound. */
static void long_lines_are_cut(void)
{
    static const char *const fillers[] = {"x", "\x01", "\xff", "\xf0\x9f\x99\x82", "\""};
    for (size_t filler = 0; filler < COUNT_OF(fillers); filler++) {
        piped_log piped;
        open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
        char string[5000] = "";
        size_t step = strlen(fillers[filler]);
        for (size_t i = 0; i + step < sizeof string; i += step)
            memcpy(string + i, fillers[filler], step + 1);
        const srv_log_field fields[] = {srv_log_string("a", string), srv_log_string("b", string),
                                        srv_log_string("c", string), srv_log_string("d", string),
                                        srv_log_int("last", 7)};
        srv_log_event(&piped.log, SRV_LOG_ERROR, string, fields, COUNT_OF(fields));
        json_t *line = read_json(&piped);
        const char *value = string_of(line, "a");
        CHECK(strlen(value) > 3 && strcmp(value + strlen(value) - 3, "…") == 0,
              "filler %zu: no ellipsis", filler);
        CHECK(json_is_true(json_object_get(line, "cut")), "filler %zu: cut", filler);
        CHECK(!json_object_get(line, "d"), "filler %zu: d cannot have fitted", filler);
        CHECK(json_integer_value(json_object_get(line, "last")) == 7,
              "filler %zu: a short field after a long one still fits", filler);
        json_decref(line);
        close_piped(&piped);
    }
}

/* Fields of every size up to the bound: the tail must always find its room. */
static void every_length_ends_well(void)
{
    piped_log piped;
    open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
    char string[SRV_LOG_STRING_BYTES + 1] = "", rest[SRV_LOG_STRING_BYTES + 1] = "";
    memset(string, 'x', SRV_LOG_STRING_BYTES);
    for (size_t length = 0; length < SRV_LOG_STRING_BYTES; length++) {
        rest[length] = 'y';
        const srv_log_field fields[] = {srv_log_string("a", string), srv_log_string("b", string),
                                        srv_log_string("c", rest), srv_log_bool("d", true)};
        atomic_store(&piped.log.lost, UINT64_MAX / 2);
        srv_log_event(&piped.log, SRV_LOG_INFO, string, fields, COUNT_OF(fields));
        json_t *line = read_json(&piped);
        bool whole = json_object_get(line, "c") && json_object_get(line, "d");
        CHECK(whole == !json_object_get(line, "cut"), "length %zu: cut must tell", length);
        CHECK(json_object_get(line, "lost") != NULL, "length %zu: lost", length);
        json_decref(line);
    }
    close_piped(&piped);
}

static void full_pipe_is_counted(void)
{
    piped_log piped;
    char drained[1 << 16];
    open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
    fcntl(piped.writer, F_SETPIPE_SZ, 4096);
    for (int i = 0; i < 1000; i++)
        srv_log_event(&piped.log, SRV_LOG_INFO, "filling the pipe", NULL, 0);
    int written = 0;
    const char *at = read_piped(&piped, drained, sizeof drained);
    while ((at = strchr(at, '\n')) != NULL)
        at++, written++;
    CHECK(written > 0 && written < 1000, "%d lines in the pipe", written);
    srv_log_event(&piped.log, SRV_LOG_INFO, "there is room again", NULL, 0);
    json_t *line = read_json(&piped);
    json_int_t lost = json_integer_value(json_object_get(line, "lost"));
    CHECK(lost == 1000 - written, "%d lost, not %d", (int)lost, 1000 - written);
    json_decref(line);
    srv_log_event(&piped.log, SRV_LOG_INFO, "told once", NULL, 0);
    line = read_json(&piped);
    CHECK(!json_object_get(line, "lost"), "lost must be told once");
    json_decref(line);
    close_piped(&piped);
}

/* Would end this program by SIGPIPE if the log let it. */
static void broken_pipe_does_not_hurt(void)
{
    piped_log piped;
    signal(SIGPIPE, SIG_DFL);
    open_piped(&piped, SRV_LOG_JSON, SRV_LOG_INFO);
    close(piped.reader);
    srv_log_event(&piped.log, SRV_LOG_INFO, "nobody listens", NULL, 0);
    CHECK(atomic_load(&piped.log.lost) == 1, "lost %d", (int)atomic_load(&piped.log.lost));
    close(piped.writer);
    srv_log_event(&piped.log, SRV_LOG_INFO, "nowhere to write", NULL, 0);
    CHECK(atomic_load(&piped.log.lost) == 2, "lost %d", (int)atomic_load(&piped.log.lost));
}

enum {
    THREADS = 4,
    EACH = 400
};

static void *log_much(void *log)
{
    char string[900];
    memset(string, 'x', sizeof string - 1);
    string[sizeof string - 1] = '\0';
    srv_log_field field = srv_log_string("name", string);
    for (int i = 0; i < EACH; i++)
        srv_log_event(log, SRV_LOG_INFO, "from a thread", &field, 1);
    return NULL;
}

/* Lines of several threads into one file: every one arrives whole. */
static void lines_do_not_interleave(void)
{
    FILE *file = tmpfile();
    srv_log log;
    srv_log_init(&log, fileno(file), SRV_LOG_JSON, SRV_LOG_INFO);
    fcntl(log.fd, F_SETFL, O_APPEND);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, log_much, &log);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rewind(file);
    char line[SRV_LOG_LINE_BYTES + 1];
    int lines = 0;
    for (; fgets(line, sizeof line, file); lines++) {
        json_t *read = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        CHECK(json_object_size(read) == 4, "line %d: %s", lines, line);
        json_decref(read);
    }
    CHECK(lines == THREADS * EACH, "%d lines", lines);
    fclose(file);
}

static const test_case cases[] = {
    {"json fields keep their types", json_fields_keep_their_types},
    {"time is RFC 3339", time_is_rfc3339},
    {"text is for people", text_is_for_people},
    {"lower levels are silent", lower_levels_are_silent},
    {"names are found", names_are_found},
    {"hostile strings are tamed", hostile_strings_are_tamed},
    {"long lines are cut", long_lines_are_cut},
    {"every length ends well", every_length_ends_well},
    {"full pipe is counted", full_pipe_is_counted},
    {"broken pipe does not hurt", broken_pipe_does_not_hurt},
    {"lines do not interleave", lines_do_not_interleave},
    {NULL, NULL},
};

int main(void)
{
    return test_main("log", cases);
}
