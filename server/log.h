/* The log: one line an event, JSON for machines or plain text for people.
 *
 * A line is built on the stack and leaves in a single write(2) of at most PIPE_BUF bytes, which
 * POSIX keeps whole even when several threads or processes share the pipe; so there is no lock, no
 * buffer to flush, and nothing to allocate when memory has just run out. Any thread may log. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SRV_LOG_LINE_BYTES = 4096,   /* the longest line with its newline: PIPE_BUF on Linux */
    SRV_LOG_STRING_BYTES = 1024, /* a message or value longer than this is cut and ends in "…" */
};

typedef enum srv_log_level {
    SRV_LOG_DEBUG,
    SRV_LOG_INFO,
    SRV_LOG_WARN,
    SRV_LOG_ERROR,
} srv_log_level;

typedef enum srv_log_format {
    SRV_LOG_JSON,
    SRV_LOG_TEXT,
} srv_log_format;

typedef struct srv_log {
    int fd; /* borrowed */
    srv_log_format format;
    srv_log_level level;       /* events below it are not written */
    atomic_uint_fast64_t lost; /* lines that found no way out since the last that did */
} srv_log;

typedef enum srv_log_kind {
    SRV_LOG_STRING,
    SRV_LOG_INT,
    SRV_LOG_REAL,
    SRV_LOG_BOOL,
} srv_log_kind;

typedef struct srv_log_field {
    const char *key; /* letters, digits and _ */
    srv_log_kind kind;
    union {
        const char *string; /* borrowed; NULL leaves the field out */
        int64_t integer;
        double real;
        bool boolean;
    };
} srv_log_field;

/* Log to `fd`. Also makes the process ignore SIGPIPE: a reader of the log that goes away must not
 * take the daemon with it. */
void srv_log_init(srv_log *log, int fd, srv_log_format format, srv_log_level level);

/* Write one event. A string in `fields` that is not UTF-8 is repaired with U+FFFD; a field that no
 * longer fits the line is left out and the line says `cut`. A line that cannot be written at once
 * is dropped and counted: the next one that gets through carries the count as `lost`. */
void srv_log_event(srv_log *log, srv_log_level level, const char *message,
                   const srv_log_field *fields, size_t count);

srv_log_field srv_log_string(const char *key, const char *value);
srv_log_field srv_log_int(const char *key, int64_t value);
srv_log_field srv_log_real(const char *key, double value);
srv_log_field srv_log_bool(const char *key, bool value);

/* The names of the configuration: "debug" "info" "warn" "error", "json" "text". False for any
 * other. */
bool srv_log_level_find(const char *name, srv_log_level *level);
bool srv_log_format_find(const char *name, srv_log_format *format);

#endif
