/* Base64 inside a JSON string, decoded while the body is walked. JSON lets a client escape any
 * character, and some libraries write every '/' as "\/", so escapes are decoded on the way. */
#ifndef SERVER_CODEC_BASE64_TEXT_H
#define SERVER_CODEC_BASE64_TEXT_H

#include "attn/status.h"
#include "server/codec/base64.h"
#include "server/codec/buffer.h"
#include "server/codec/token.h"

typedef struct srv_base64_text {
    const char *label; /* borrowed; what error messages call it */
    srv_base64 decoder;
    size_t characters; /* decoded so far */
    srv_buffer raw;    /* the bytes */
} srv_base64_text;     /* all zero but the label is one that has not begun */

/* Read on, after the opening quote the first time; DONE leaves the cursor after the closing one. */
srv_body_step srv_base64_text_read(srv_base64_text *text, srv_cursor *cursor, attn_error *error);

void srv_base64_text_close(srv_base64_text *text);

#endif
