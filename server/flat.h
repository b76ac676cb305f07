/* Small JSON files that people write: one object of texts, numbers and switches. */
#ifndef SERVER_FLAT_H
#define SERVER_FLAT_H

#include "attn/status.h"

typedef enum srv_flat_kind {
    SRV_FLAT_TEXT,
    SRV_FLAT_INT,
    SRV_FLAT_REAL,
    SRV_FLAT_BOOL,
    SRV_FLAT_OTHER, /* a list, an object or null */
} srv_flat_kind;

typedef struct srv_flat_value {
    srv_flat_kind kind;
    const char *text; /* as a flag would spell it; "" of OTHER */
} srv_flat_value;

/* Take a member. */
typedef attn_status srv_flat_member(void *context, const char *path, const char *key,
                                    const srv_flat_value *value, attn_error *error);

/* Hand over the members in the order of the file, up to the first that is refused. Errors name the
 * file, and carry `param`: ATTN_INVALID for what cannot be opened or is no JSON object without
 * duplicate keys, ATTN_NO_MEMORY. */
attn_status srv_flat_read(const char *path, const char *param, srv_flat_member *take, void *context,
                          attn_error *error);

#endif
