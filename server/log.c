/* Log lines. Both formats go through the same three steps (head, field, tail) and differ only in
 * how each is spelled. */
#include "server/log.h"
#include "server/text.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Kept free behind the last field for the longest tail, `,"cut":true,"lost":<20 digits>}`. */
enum {
    TAIL_BYTES = 48
};

static_assert(SRV_LOG_LINE_BYTES <= PIPE_BUF, "a line must be written whole");
static_assert(2 * SRV_LOG_STRING_BYTES + TAIL_BYTES < SRV_LOG_LINE_BYTES,
              "the message and one long value must fit a line");

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {"json", "text"};

void srv_log_init(srv_log *log, int fd, srv_log_format format, srv_log_level level)
{
    log->fd = fd;
    log->format = format;
    log->level = level;
    atomic_init(&log->lost, 0);
    signal(SIGPIPE, SIG_IGN);
}

srv_log_field srv_log_string(const char *key, const char *value)
{
    return (srv_log_field){.key = key, .kind = SRV_LOG_STRING, .string = value};
}

srv_log_field srv_log_int(const char *key, int64_t value)
{
    return (srv_log_field){.key = key, .kind = SRV_LOG_INT, .integer = value};
}

srv_log_field srv_log_real(const char *key, double value)
{
    return (srv_log_field){.key = key, .kind = SRV_LOG_REAL, .real = value};
}

srv_log_field srv_log_bool(const char *key, bool value)
{
    return (srv_log_field){.key = key, .kind = SRV_LOG_BOOL, .boolean = value};
}

/* Now, as RFC 3339 in UTC with milliseconds. */
static void add_time(srv_text *line)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    srv_text_format(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900,
                    utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                    now.tv_nsec / 1000000);
}

/* True when `string` needs no quotes in a text line. Control bytes always do: they could fake a
 * line of the log. */
static bool is_plain(const char *string, const char *quoted)
{
    if (!string[0] || strlen(string) > SRV_LOG_STRING_BYTES)
        return false;
    for (; *string; string++)
        if (*string < ' ' || *string > '~' || strchr(quoted, *string))
            return false;
    return true;
}

/* A string in either format; `quoted` lists the printable characters that call for quotes. */
static void add_string(srv_text *line, srv_log_format format, const char *string,
                       const char *quoted)
{
    if (format == SRV_LOG_TEXT && is_plain(string, quoted))
        srv_text_string(line, string);
    else
        srv_text_json_cut(line, string, SRV_LOG_STRING_BYTES);
}

static void add_head(srv_text *line, srv_log_format format, srv_log_level level,
                     const char *message)
{
    bool json = format == SRV_LOG_JSON;
    srv_text_string(line, json ? "{\"ts\":\"" : "");
    add_time(line);
    srv_text_format(line, json ? "\",\"level\":\"%s\",\"msg\":" : " %-5s ", level_names[level]);
    add_string(line, format, message, "\"");
}

static void add_field(srv_text *line, srv_log_format format, const srv_log_field *field)
{
    srv_text_format(line, format == SRV_LOG_JSON ? ",\"%s\":" : " %s=", field->key);
    switch (field->kind) {
    case SRV_LOG_STRING:
        add_string(line, format, field->string, " \"=");
        break;
    case SRV_LOG_INT:
        srv_text_int(line, field->integer);
        break;
    case SRV_LOG_REAL:
        srv_text_real(line, field->real);
        break;
    case SRV_LOG_BOOL:
        srv_text_string(line, field->boolean ? "true" : "false");
        break;
    }
}

/* Every field that fits in front of the tail; false when one did not. */
static bool add_fields(srv_text *line, srv_log_format format, const srv_log_field *fields,
                       size_t count)
{
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        if (fields[i].kind == SRV_LOG_STRING && !fields[i].string)
            continue;
        size_t mark = line->length;
        add_field(line, format, &fields[i]);
        if (line->failed || line->length > SRV_LOG_LINE_BYTES - TAIL_BYTES) {
            srv_text_rewind(line, mark);
            all = false;
        }
    }
    return all;
}

/* Never waits, though the descriptor is usually blocking and, being shared with other processes,
 * has to stay so. A pipe that polls writable has room for PIPE_BUF bytes, and so for a line; a
 * socket may not have, but can be told not to wait. */
static bool write_line(int fd, const srv_text *line)
{
    struct pollfd out = {.fd = fd, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
        return false;
    ssize_t written = send(fd, line->data, line->length, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (written < 0 && (errno == ENOTSOCK || errno == EINTR))
        written = write(fd, line->data, line->length);
    return written == (ssize_t)line->length;
}

void srv_log_event(srv_log *log, srv_log_level level, const char *message,
                   const srv_log_field *fields, size_t count)
{
    if (level < log->level)
        return;
    char buffer[SRV_LOG_LINE_BYTES + 1];
    srv_text line = srv_text_lend(buffer, sizeof buffer);
    uint_fast64_t lost = atomic_exchange(&log->lost, 0);
    add_head(&line, log->format, level, message);
    bool all = add_fields(&line, log->format, fields, count);
    srv_log_field cut_field = srv_log_bool("cut", true);
    srv_log_field lost_field = srv_log_int("lost", (int64_t)lost);
    if (!all)
        add_field(&line, log->format, &cut_field);
    if (lost)
        add_field(&line, log->format, &lost_field);
    srv_text_string(&line, log->format == SRV_LOG_JSON ? "}\n" : "\n");
    if (!write_line(log->fd, &line))
        atomic_fetch_add(&log->lost, lost + 1);
}

/* Index of `name` among `names`, or -1. */
static int find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

bool srv_log_level_find(const char *name, srv_log_level *level)
{
    int found = find_name(name, level_names, SRV_LOG_ERROR + 1);
    if (found >= 0)
        *level = (srv_log_level)found;
    return found >= 0;
}

bool srv_log_format_find(const char *name, srv_log_format *format)
{
    int found = find_name(name, format_names, SRV_LOG_TEXT + 1);
    if (found >= 0)
        *format = (srv_log_format)found;
    return found >= 0;
}
