/* Reads a JSON request body in slices: tensors straight into float32, the rest through jansson.
 *
 * A jansson tree costs about 40 bytes and 400 ns a number, so the scanner copies everything but the
 * numbers of the tensors (srv_tensor_names) to a small text, with null in their place, and jansson
 * parses that. Syntax, duplicate keys and every small field are therefore jansson's to judge, and
 * the two cannot see different documents. Only top-level keys name tensors.
 *
 * A slice keeps a large body from holding its worker; nothing here is shared between bodies. */
#ifndef SERVER_CODEC_BODY_H
#define SERVER_CODEC_BODY_H

#include "attn/status.h"
#include "server/codec/number.h"
#include "server/codec/tensor.h"
#include "server/codec/token.h"

struct json_t;

#define SRV_BODY_PADDING  SRV_NUMBER_PADDING
#define SRV_BODY_REST_MAX (1 << 18) /* bytes of everything that is not tensor data */

typedef struct srv_body srv_body;

/* Begin. Borrows the text; text[length .. length+SRV_BODY_PADDING) must be readable zero bytes.
 * NULL: no memory. */
srv_body *srv_body_open(const char *text, size_t length);

/* Read about `bytes` more. A fault is ATTN_MALFORMED (not JSON), ATTN_INVALID (wrong tensor, names
 * the place) or ATTN_NO_MEMORY; after it only closing is left. */
srv_body_step srv_body_read(srv_body *body, size_t bytes, attn_error *error);

/* After DONE: a tensor owned by the body, or NULL when the document has no such field. */
const srv_tensor *srv_body_tensor(const srv_body *body, const char *name);

/* After DONE: the document as an object owned by the body, with null in place of each tensor. */
const struct json_t *srv_body_fields(const srv_body *body);

void srv_body_close(srv_body *body);

#endif
