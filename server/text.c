/* The growing text. Capacity doubles, so appending n bytes costs O(n) however small the pieces. */
#include "server/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 256,
    NUMBER_BYTES = 40,
};

srv_text srv_text_lend(char *buffer, size_t capacity)
{
    buffer[0] = '\0';
    return (srv_text){.data = buffer, .capacity = capacity, .lent = true};
}

/* Make room for `more` bytes and a NUL. */
static bool reserve(srv_text *text, size_t more)
{
    if (text->failed)
        return false;
    if (more < text->capacity - text->length)
        return true;
    text->failed = true;
    if (text->lent || more >= SIZE_MAX / 4 - text->length)
        return false;
    size_t capacity = text->capacity ? text->capacity : FIRST_CAPACITY;
    while (capacity <= text->length + more)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data)
        return false;
    text->data = data;
    text->capacity = capacity;
    text->failed = false;
    return true;
}

void srv_text_add(srv_text *text, const char *bytes, size_t length)
{
    if (!reserve(text, length))
        return;
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void srv_text_string(srv_text *text, const char *string)
{
    srv_text_add(text, string, strlen(string));
}

void srv_text_format(srv_text *text, const char *format, ...)
{
    va_list measured, printed;
    va_start(measured, format);
    va_copy(printed, measured);
    int length = vsnprintf(NULL, 0, format, measured);
    va_end(measured);
    if (length < 0)
        text->failed = true;
    else if (reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, printed);
        text->length += (size_t)length;
    }
    va_end(printed);
}

size_t srv_utf8_length(const char *string)
{
    const unsigned char *b = (const unsigned char *)string;
    if (b[0] < 0x80)
        return 1;
    if (b[0] < 0xC2 || b[0] > 0xF4)
        return 0;
    size_t length = b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    /* The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF. */
    unsigned char low = b[0] == 0xE0 ? 0xA0 : b[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = b[0] == 0xED ? 0x9F : b[0] == 0xF4 ? 0x8F : 0xBF;
    if (b[1] < low || b[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((b[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

/* Spell the character of `length` bytes (0: not UTF-8) at `at` for JSON; returns the bytes written
 * to `to`. */
static size_t json_spell(const char *at, size_t length, char to[8])
{
    static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    if (length == 0)
        return (size_t)snprintf(to, 8, "\uFFFD");
    const char *found = strchr(escaped, at[0]);
    if (found)
        return (size_t)snprintf(to, 8, "\\%c", letters[found - escaped]);
    if ((unsigned char)at[0] < 0x20 || at[0] == 0x7F)
        return (size_t)snprintf(to, 8, "\\u%04x", (unsigned)at[0]);
    memcpy(to, at, length);
    return length;
}

void srv_text_json_cut(srv_text *text, const char *string, size_t limit)
{
    srv_text_string(text, "\"");
    size_t written = 0;
    while (*string) {
        char spelled[8];
        size_t length = srv_utf8_length(string);
        size_t bytes = json_spell(string, length, spelled);
        if (bytes > limit - written) {
            srv_text_string(text, "…");
            break;
        }
        srv_text_add(text, spelled, bytes);
        written += bytes;
        string += length ? length : 1;
    }
    srv_text_string(text, "\"");
}

void srv_text_json(srv_text *text, const char *string)
{
    srv_text_json_cut(text, string, SIZE_MAX);
}

void srv_text_int(srv_text *text, int64_t value)
{
    srv_text_format(text, "%" PRId64, value);
}

/* `value` as printed. Whatever the locale put where the point belongs, it is the one part that is
 * none of these. */
static void add_number(srv_text *text, double value, const char *printed)
{
    static const char plain[] = "0123456789+-e";
    if (!isfinite(value)) {
        srv_text_string(text, "null");
        return;
    }
    size_t head = strspn(printed, plain);
    srv_text_add(text, printed, head);
    if (printed[head]) {
        srv_text_string(text, ".");
        srv_text_string(text, printed + head + strcspn(printed + head, plain));
    }
}

void srv_text_real(srv_text *text, double value)
{
    char printed[NUMBER_BYTES];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(printed, sizeof printed, "%.*g", digits, value);
        if (strtod(printed, NULL) == value)
            break;
    }
    add_number(text, value, printed);
}

void srv_text_figure(srv_text *text, double value)
{
    char printed[NUMBER_BYTES];
    snprintf(printed, sizeof printed, "%.6g", value);
    add_number(text, value, printed);
}

double srv_round_ms(double ms)
{
    return round(ms * 1e3) / 1e3;
}

void srv_text_ms(srv_text *text, double ms)
{
    srv_text_real(text, srv_round_ms(ms));
}

void srv_text_rewind(srv_text *text, size_t length)
{
    text->length = length;
    text->failed = false;
    if (text->data)
        text->data[length] = '\0';
}

char *srv_text_release(srv_text *text, size_t *length)
{
    srv_text_add(text, "", 0); /* an empty text is an empty string, not NULL */
    if (text->failed) {
        srv_text_free(text);
        return NULL;
    }
    char *data = text->data;
    if (length)
        *length = text->length;
    *text = SRV_TEXT_EMPTY;
    return data;
}

void srv_text_free(srv_text *text)
{
    if (!text->lent)
        free(text->data);
    *text = SRV_TEXT_EMPTY;
}
