/* One tensor of a request body, from the first byte of its value to float32.
 *
 * The numbers or the base64 text are read while the body is walked; shape and datatype may come
 * after them, so they are looked at when the document is complete (settle), and only then can raw
 * bytes be converted. */
#ifndef SERVER_CODEC_FIELD_H
#define SERVER_CODEC_FIELD_H

#include "attn/dtype.h"
#include "server/codec/array.h"
#include "server/codec/base64_text.h"

struct json_t;

#define SRV_FIELD_LABEL 24

typedef struct srv_field {
    const char *name; /* borrowed */
    char array_label[SRV_FIELD_LABEL], base64_label[SRV_FIELD_LABEL];
    bool bare;       /* the value is itself an array */
    bool has_data;   /* numbers were read into `array` */
    bool has_base64; /* bytes were decoded into `base64` */
    srv_array array; /* holds the floats of the tensor in the end, whatever its form */
    srv_base64_text base64;
    attn_dtype dtype;  /* of the bytes */
    size_t converted;  /* elements that are floats by now */
    srv_tensor tensor; /* after settling; data after converting */
} srv_field;

void srv_field_init(srv_field *field, const char *name);

/* Read on in an array that is the value itself (bare) or its "data". */
srv_body_step srv_field_read_array(srv_field *field, bool bare, srv_cursor *cursor,
                                   attn_error *error);

/* Read on in the text of its "base64". */
srv_body_step srv_field_read_base64(srv_field *field, srv_cursor *cursor, attn_error *error);

/* Check what was read against the value as the document has it: null in place of what was read. */
attn_status srv_field_settle(srv_field *field, struct json_t *value, attn_error *error);

/* Convert about `bytes` bytes of what was decoded, and refuse what is not finite. */
srv_body_step srv_field_convert(srv_field *field, size_t bytes, attn_error *error);

void srv_field_close(srv_field *field);

#endif
