/* A safetensors body, read in slices: the header first, then one tensor after the other. float32 is
 * used where it lies; anything else is converted, or moved to where floats may lie. Options are in
 * the query string, and so may be key_mask. Only source.c includes this. */
#ifndef SERVER_ATTEND_SOURCE_FILE_H
#define SERVER_ATTEND_SOURCE_FILE_H

#include "server/codec/body.h"
#include "server/request.h"

typedef struct srv_source_file srv_source_file;

/* As srv_source_lead. */
size_t srv_source_file_lead(const char *start, size_t size);

/* On a complete request, which stays borrowed. NULL: no memory. */
srv_source_file *srv_source_file_open(const srv_request *request);

/* Read about `bytes` more; see srv_body_read. */
srv_body_step srv_source_file_read(srv_source_file *file, size_t bytes, attn_error *error);

/* After DONE: the tensor of that index (srv_tensor_find), or NULL. */
const srv_tensor *srv_source_file_tensor(const srv_source_file *file, int name);

/* What conversion takes, known with the header. */
size_t srv_source_file_bytes(const srv_source_file *file);

/* NULL is fine. */
void srv_source_file_close(srv_source_file *file);

#endif
