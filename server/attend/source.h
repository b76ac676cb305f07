/* Where a call's tensors and options come from: a JSON body, or a safetensors body with the options
 * in the query string. Read in slices, so that a long body does not hold its worker. */
#ifndef SERVER_ATTEND_SOURCE_H
#define SERVER_ATTEND_SOURCE_H

#include "server/attend/call.h"
#include "server/attend/options.h"
#include "server/codec/body.h"
#include "server/request.h"

/* Bytes to allocate beyond a body: zeros that the scanner may read past it, and room to align. */
#define SRV_SOURCE_MARGIN (SRV_BODY_PADDING + 4)

/* The media type of a safetensors body. */
#define SRV_SAFETENSORS_TYPE "application/vnd.safetensors"

typedef struct srv_source srv_source;

/* Most memory that reading a body of `length` bytes takes at once, the body included. */
size_t srv_source_bound(srv_format format, size_t length);

/* How many bytes to leave before a body that starts with these, so that tensors inside it come to
 * lie where floats may: 0 to 3. */
size_t srv_source_lead(srv_format format, const char *start, size_t size);

/* Begin on a complete request, whose body and query stay borrowed. NULL: no memory. */
srv_source *srv_source_open(const srv_request *request);

/* Read about `bytes` more; see srv_body_read. */
srv_body_step srv_source_read(srv_source *source, size_t bytes, attn_error *error);

/* After DONE. The tensors belong to the source. */
srv_inputs srv_source_inputs(const srv_source *source);
attn_status srv_source_options(const srv_source *source, unsigned routes, srv_options *options,
                               attn_error *error);

/* After DONE: whether the body must be kept, because tensors lie in it. */
bool srv_source_needs_body(const srv_source *source);

/* Bytes it holds besides the body, or for a safetensors body will hold once all is converted: known
 * after the first slice. For JSON after DONE. */
size_t srv_source_bytes(const srv_source *source);

void srv_source_close(srv_source *source);

#endif
