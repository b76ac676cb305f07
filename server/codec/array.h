/* Scans a JSON array of numbers, nested up to four deep, straight into float32 storage. The shape
 * is what the nesting says; a ragged array is refused at the first row that differs. */
#ifndef SERVER_CODEC_ARRAY_H
#define SERVER_CODEC_ARRAY_H

#include "attn/status.h"
#include "server/codec/buffer.h"
#include "server/codec/tensor.h"
#include "server/codec/token.h"

typedef enum srv_array_state {
    SRV_ARRAY_FIRST, /* a bracket has opened, or nothing yet: an item must come */
    SRV_ARRAY_ITEM,  /* a comma has been read: an item must come */
    SRV_ARRAY_NEXT,  /* an item has been read: a comma or a bracket must come */
} srv_array_state;

typedef struct srv_array {
    const char *label; /* borrowed; what error messages call it */
    srv_buffer floats;
    srv_array_state state;
    int depth;                   /* brackets that are open */
    int rank;                    /* 0 until the first number shows it */
    int64_t dim[SRV_RANK_MAX];   /* 0 until the first array of that level closes */
    int64_t index[SRV_RANK_MAX]; /* where reading stands */
} srv_array;                     /* all zero but the label is one that has not begun */

/* Read on, from the opening bracket the first time; DONE leaves the cursor after the closing one.
 */
srv_body_step srv_array_read(srv_array *array, srv_cursor *cursor, attn_error *error);

void srv_array_close(srv_array *array);

#endif
