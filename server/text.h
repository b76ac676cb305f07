/* A text that grows: how JSON answers, metrics and log lines are put together.
 *
 * Running out of memory sets `failed` and makes every later append do nothing, so a caller appends
 * freely and asks once, at the end. Numbers are printed with a dot whatever the locale says. */
#ifndef SERVER_TEXT_H
#define SERVER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_text {
    char *data; /* NUL-terminated once anything was added; NULL before */
    size_t length, capacity;
    bool failed;
    bool lent; /* data belongs to the caller and never grows */
} srv_text;

/* An empty text that allocates as it grows; srv_text_release or srv_text_free ends it. */
#define SRV_TEXT_EMPTY ((srv_text){NULL, 0, 0, false, false})

/* An empty text inside `buffer`, borrowed: fails when full instead of allocating. `capacity` counts
 * the terminating NUL and is at least 1. */
srv_text srv_text_lend(char *buffer, size_t capacity);

/* Append `length` bytes, which may not lie inside the text itself. */
void srv_text_add(srv_text *text, const char *bytes, size_t length);
void srv_text_string(srv_text *text, const char *string);

/* Append as printf does. Not for reals: their decimal point follows the locale. */
void srv_text_format(srv_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Append `string` as a JSON string with its quotes; a byte that is not UTF-8 becomes U+FFFD. */
void srv_text_json(srv_text *text, const char *string);

/* The same, but cut after at most `limit` bytes between the quotes, and then "…". */
void srv_text_json_cut(srv_text *text, const char *string, size_t limit);

void srv_text_int(srv_text *text, int64_t value);

/* Append the shortest of 15 to 17 significant digits that reads back as the same double; "null"
 * for NaN and the infinities, which JSON cannot spell. */
void srv_text_real(srv_text *text, double value);

/* Append six significant digits of a measured value, or "null" as above. */
void srv_text_figure(srv_text *text, double value);

/* Milliseconds as people and logs want them: whole microseconds, since more digits are noise. */
void srv_text_ms(srv_text *text, double ms);
double srv_round_ms(double ms);

/* Forget everything after the first `length` bytes, and a failure that happened there. */
void srv_text_rewind(srv_text *text, size_t length);

/* The text as a malloc'ed string of *length bytes and a NUL (`length` may be NULL), which the
 * caller frees; NULL when an append failed. Not for a lent text. Leaves the text empty. */
char *srv_text_release(srv_text *text, size_t *length);

/* Free what the text owns and leave it empty. */
void srv_text_free(srv_text *text);

/* Bytes of the UTF-8 character that `string` starts with, 1 to 4, or 0 when it is not UTF-8
 * (overlong forms and surrogates included). A NUL counts as a character of one byte. */
size_t srv_utf8_length(const char *string);

#endif
