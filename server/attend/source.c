/* Two encodings behind one face. */
#include "server/attend/source.h"

#include "server/attend/source_file.h"

#include <stdlib.h>

enum {
    /* What a jansson tree may take for a byte of text, `[],[],` being the worst. */
    TREE_BYTES_PER_BYTE = 50,
};

struct srv_source {
    const srv_request *request;
    srv_body *body;        /* JSON, or NULL */
    srv_source_file *file; /* safetensors, or NULL */
};

size_t srv_source_bound(srv_format format, size_t length)
{
    size_t tree = (length < SRV_BODY_REST_MAX ? length : SRV_BODY_REST_MAX) * TREE_BYTES_PER_BYTE;
    if (format == SRV_FORMAT_SAFETENSORS)
        return length + tree + SRV_SOURCE_MARGIN;
    /* Base64 of FP16 holds, for 4 bytes of text, 3 of raw data and 6 of float32; numbers at least 2
     * bytes of text for 4. */
    return length + length / 4 * 9 + tree + SRV_SOURCE_MARGIN;
}

size_t srv_source_lead(srv_format format, const char *start, size_t size)
{
    return format == SRV_FORMAT_SAFETENSORS ? srv_source_file_lead(start, size) : 0;
}

srv_source *srv_source_open(const srv_request *request)
{
    srv_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->request = request;
    if (request->format == SRV_FORMAT_SAFETENSORS)
        source->file = srv_source_file_open(request);
    else
        source->body = srv_body_open(request->body, request->body_length);
    if (source->file || source->body)
        return source;
    free(source);
    return NULL;
}

srv_body_step srv_source_read(srv_source *source, size_t bytes, attn_error *error)
{
    return source->body ? srv_body_read(source->body, bytes, error)
                        : srv_source_file_read(source->file, bytes, error);
}

static const srv_tensor *tensor(const srv_source *source, const char *name)
{
    return source->body ? srv_body_tensor(source->body, name)
                        : srv_source_file_tensor(source->file, srv_tensor_find(name));
}

srv_inputs srv_source_inputs(const srv_source *source)
{
    return (srv_inputs){
        .q = tensor(source, "q"),
        .k = tensor(source, "k"),
        .v = tensor(source, "v"),
        .e = tensor(source, "e"),
        .f = tensor(source, "f"),
        .omega = tensor(source, "omega"),
        .input = tensor(source, "input"),
        .key_mask = tensor(source, "key_mask"),
    };
}

attn_status srv_source_options(const srv_source *source, unsigned routes, srv_options *options,
                               attn_error *error)
{
    const srv_request *request = source->request;
    if (!source->body)
        return srv_options_read_query(options, request->query, request->query_count, routes, error);
    if (request->query_count > 0)
        return attn_error_set(error, ATTN_INVALID, request->query[0].name,
                              "the query string has options, but a JSON body carries its own; move "
                              "them there");
    return srv_options_read(options, srv_body_fields(source->body), routes, error);
}

bool srv_source_needs_body(const srv_source *source)
{
    return !source->body;
}

size_t srv_source_bytes(const srv_source *source)
{
    size_t length = source->request->body_length;
    size_t bytes = TREE_BYTES_PER_BYTE * (length < SRV_BODY_REST_MAX ? length : SRV_BODY_REST_MAX);
    if (!source->body)
        return bytes + srv_source_file_bytes(source->file);
    for (int i = 0; i < SRV_TENSOR_NAMES; i++) {
        const srv_tensor *text = srv_body_tensor(source->body, srv_tensor_names[i]);
        bytes += text ? text->count * sizeof(float) : 0;
    }
    return bytes;
}

void srv_source_close(srv_source *source)
{
    srv_source_file_close(source->file);
    srv_body_close(source->body);
    free(source);
}
