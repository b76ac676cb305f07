/* Moving over JSON text token by token, without building anything. The text is borrowed and
 * followed by SRV_NUMBER_PADDING zero bytes, so that one byte may always be looked at. */
#ifndef SERVER_CODEC_TOKEN_H
#define SERVER_CODEC_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

/* How far a slice of reading came. */
typedef enum srv_body_step {
    SRV_BODY_MORE,  /* the slice is used up: call again */
    SRV_BODY_DONE,  /* read to the end */
    SRV_BODY_FAULT, /* the error says why */
} srv_body_step;

typedef struct srv_cursor {
    const char *at;
    const char *limit; /* end of this slice; no further than `end` */
    const char *end;   /* end of the text */
} srv_cursor;

/* Step over white space; false when the slice ends before anything else comes. */
bool srv_cursor_skip_space(srv_cursor *cursor);

/* First byte after the string that opens at `text`, or NULL when it does not close before `end`. */
const char *srv_token_skip_string(const char *text, const char *end);

/* First byte after the value that opens at `text`, or NULL when it does not end before `end`. Only
 * brackets and quotes are followed: every valid value is skipped, not all that is skipped is valid.
 */
const char *srv_token_skip_value(const char *text, const char *end);

enum {
    SRV_TOKEN_TEXT = 24,
    SRV_TOKEN_MAX = 48
};

/* Print what stands at `text` for an error message ("an array", null, "abc") at `to` of
 * SRV_TOKEN_MAX bytes: printable ASCII, at most SRV_TOKEN_TEXT characters of the client's. */
void srv_token_describe(char *to, const char *text, const char *end);

/* Copy at most SRV_TOKEN_TEXT characters in double quotes, with '?' for what is not printable. */
void srv_token_quote(char *to, const char *text, size_t length);

#endif
