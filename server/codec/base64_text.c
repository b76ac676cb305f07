/* Plain runs go to the decoder whole. It stops at quotes and backslashes, which base64 has none of,
 * so nothing needs to look for them first. */
#include "server/codec/base64_text.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character that the escape at `text` stands for, and the escape's length: 0 when it cannot be
 * base64. The zero bytes after the body make looking ahead safe. */
static size_t unescape(const char *text, char *character)
{
    if (text[1] == '/') {
        *character = '/';
        return 2;
    }
    if (text[1] != 'u' || text[2] != '0' || text[3] != '0')
        return 0;
    int high = hex_digit(text[4]), low = high < 0 ? -1 : hex_digit(text[5]);
    if (low < 0)
        return 0;
    *character = (char)(high * 16 + low);
    return 6;
}

/* Decode what follows up to the end of the slice or the first byte that is no plain base64. */
static bool decode_run(srv_base64_text *text, srv_cursor *cursor)
{
    size_t length = (size_t)(cursor->limit - cursor->at), written;
    if (!srv_buffer_reserve(&text->raw, SRV_BASE64_BYTES(length)))
        return false;
    unsigned char *to = (unsigned char *)text->raw.bytes + text->raw.used;
    size_t taken = srv_base64_decode(&text->decoder, cursor->at, length, to, &written);
    text->raw.used += written;
    text->characters += taken;
    cursor->at += taken;
    return true;
}

/* Decode one escaped character; false when it does not belong there. The room that decode_run has
 * just reserved covers it. */
static bool decode_escape(srv_base64_text *text, srv_cursor *cursor)
{
    char character;
    size_t length = unescape(cursor->at, &character), written;
    unsigned char *to = (unsigned char *)text->raw.bytes + text->raw.used;
    if (length == 0 || srv_base64_decode(&text->decoder, &character, 1, to, &written) == 0)
        return false;
    text->raw.used += written;
    text->characters++;
    cursor->at += length;
    return true;
}

static srv_body_step close_text(srv_base64_text *text, srv_cursor *cursor, attn_error *error)
{
    cursor->at++;
    if (!srv_base64_whole(&text->decoder)) {
        attn_error_set(error, ATTN_INVALID, text->label,
                       "%s: ends inside a group of four characters; is padding missing?",
                       text->label);
        return SRV_BODY_FAULT;
    }
    srv_buffer_trim(&text->raw);
    return SRV_BODY_DONE;
}

static srv_body_step misplaced(const srv_base64_text *text, const srv_cursor *cursor,
                               attn_error *error)
{
    char found[SRV_TOKEN_MAX];
    srv_token_quote(found, cursor->at, 1);
    attn_error_set(error, ATTN_INVALID, text->label,
                   "%s: found %s at character %zu, which does not belong in base64 there",
                   text->label, found, text->characters);
    return SRV_BODY_FAULT;
}

srv_body_step srv_base64_text_read(srv_base64_text *text, srv_cursor *cursor, attn_error *error)
{
    while (cursor->at < cursor->limit) {
        if (!decode_run(text, cursor)) {
            attn_error_set(error, ATTN_NO_MEMORY, text->label, "%s: no memory for more bytes",
                           text->label);
            return SRV_BODY_FAULT;
        }
        if (cursor->at == cursor->limit)
            break;
        if (*cursor->at == '"')
            return close_text(text, cursor, error);
        if (*cursor->at != '\\' || !decode_escape(text, cursor))
            return misplaced(text, cursor, error);
    }
    return SRV_BODY_MORE;
}

void srv_base64_text_close(srv_base64_text *text)
{
    srv_buffer_close(&text->raw);
}
