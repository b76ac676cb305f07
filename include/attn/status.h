/* How a call ended, and the one sentence that tells a person why.
 *
 * Functions that can fail return attn_status and, where the reason is worth a sentence, fill an
 * attn_error. The first cause wins: attn_error_set never overwrites an error that is already set.
 */
#ifndef ATTN_STATUS_H
#define ATTN_STATUS_H

typedef enum attn_status {
#define STATUS(code, name, meaning) ATTN_##code,
#include "attn/status.def"
#undef STATUS
} attn_status;

typedef struct attn_error {
    attn_status status;
    char param[64];    /* the field at fault as the client spells it ("q[3][17]"), or "" */
    char message[320]; /* what was found, what was expected, what to do */
} attn_error;

/* The name used in HTTP errors and logs ("invalid_argument"). */
const char *attn_status_name(attn_status status);

/* Fill *error unless it already holds a cause; returns `status`, so that a refusal is one line.
 * `param` may be NULL; `error` may be NULL when the caller does not care. */
attn_status attn_error_set(attn_error *error, attn_status status, const char *param,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
