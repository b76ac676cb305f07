/* Tokens of JSON text. Skipping is a loop with a depth, never recursion: nesting costs no stack. */
#include "server/codec/token.h"

#include "attn/quote.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static inline bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool srv_cursor_skip_space(srv_cursor *cursor)
{
    while (cursor->at < cursor->limit && is_space(*cursor->at))
        cursor->at++;
    return cursor->at < cursor->limit;
}

const char *srv_token_skip_string(const char *text, const char *end)
{
    for (text++; text < end; text++) {
        if (*text == '"')
            return text + 1;
        if (*text == '\\')
            text++;
    }
    return NULL;
}

/* Characters that end a number or a word. */
static inline bool is_delimiter(char c)
{
    return is_space(c) || c == ',' || c == ':' || c == '"' || c == '[' || c == ']' || c == '{' ||
           c == '}';
}

static const char *skip_word(const char *text, const char *end)
{
    while (text < end && !is_delimiter(*text))
        text++;
    return text < end ? text : NULL;
}

const char *srv_token_skip_value(const char *text, const char *end)
{
    if (*text == '"')
        return srv_token_skip_string(text, end);
    if (*text != '[' && *text != '{')
        return skip_word(text, end);
    size_t depth = 0;
    while (text && text < end) {
        if (*text == '"') {
            text = srv_token_skip_string(text, end);
            continue;
        }
        depth += *text == '[' || *text == '{';
        depth -= *text == ']' || *text == '}';
        text++;
        if (depth == 0)
            return text;
    }
    return NULL;
}

void srv_token_quote(char *to, const char *text, size_t length)
{
    attn_quote(to, SRV_TOKEN_TEXT + ATTN_QUOTE_MIN, text, length);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '+' || c == '-' || c == '.' || c == '_';
}

/* A number or a word is shown bare, any other byte in quotes. */
static void describe_word(char *to, const char *text, const char *end)
{
    size_t length = 0;
    while (length <= SRV_TOKEN_TEXT && text + length < end && is_word(text[length]))
        length++;
    if (length == 0)
        srv_token_quote(to, text, 1);
    else if (length > SRV_TOKEN_TEXT)
        snprintf(to, SRV_TOKEN_MAX, "%.*s...", SRV_TOKEN_TEXT, text);
    else
        snprintf(to, SRV_TOKEN_MAX, "%.*s", (int)length, text);
}

void srv_token_describe(char *to, const char *text, const char *end)
{
    if (text >= end) {
        strcpy(to, "the end of the body");
    } else if (*text == '[') {
        strcpy(to, "an array");
    } else if (*text == '{') {
        strcpy(to, "an object");
    } else if (*text == '"') {
        size_t length = (size_t)(end - ++text);
        length = length < SRV_TOKEN_TEXT + 1 ? length : SRV_TOKEN_TEXT + 1;
        const char *last = memchr(text, '"', length);
        srv_token_quote(to, text, last ? (size_t)(last - text) : length);
    } else {
        describe_word(to, text, end);
    }
}
