/* A request's options: fields.def read out of a JSON object or a query string into typed values. */
#ifndef SERVER_ATTEND_OPTIONS_H
#define SERVER_ATTEND_OPTIONS_H

#include "attn/status.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum srv_field {
#define FIELD(id, path, kind, least, most, backends, routes) SRV_FIELD_##id,
#include "server/attend/fields.def"
#undef FIELD
    SRV_FIELD_COUNT
} srv_field;

/* Sets of routes, as fields.def names them and as a reader says whose fields it takes. */
enum {
    SRV_FOR_ATTEND = 1,
    SRV_FOR_PLAN = 2,
    SRV_FOR_ANALYZE = 4,
    SRV_FOR_ALL = SRV_FOR_ATTEND | SRV_FOR_PLAN | SRV_FOR_ANALYZE,
};

typedef struct srv_value {
    bool given;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string; /* borrowed from the document */
        struct {
            int64_t *data; /* owned */
            size_t count;
        } integers;
    };
} srv_value;

typedef struct srv_options {
    srv_value values[SRV_FIELD_COUNT];
} srv_options;

struct json_t;

/* Read every member of `document` that is not a tensor. Refuses unknown members, wrong types and
 * values out of range, each naming the field, what was found and what was expected. Only the fields
 * of `routes` exist. Strings are borrowed from `document`. Whatever it returns, srv_options_free
 * ends the options. */
attn_status srv_options_read(srv_options *options, const struct json_t *document, unsigned routes,
                             attn_error *error);

/* The same from a query string: `params.window=512&lengths=4096,1800&causal=true`. Strings are
 * borrowed from the pairs; pairs named like a tensor are left to others. */
attn_status srv_options_read_query(srv_options *options, const srv_pair *pairs, int count,
                                   unsigned routes, attn_error *error);

/* The words that a field may be, the last one NULL; NULL for a field that is not a word. Those of
 * params.* stand in the order of the enum that they mean (attn/mixer.h). */
const char *const *srv_options_words(srv_field field);

/* Append the fields of `routes` as members of a JSON schema's "properties", each behind a comma. */
void srv_options_describe(srv_text *text, unsigned routes);

/* Append them as OpenAPI parameters of a query string, each behind a comma but the first. */
void srv_options_describe_query(srv_text *text, unsigned routes);

void srv_options_free(srv_options *options);

bool srv_options_given(const srv_options *options, srv_field field);

/* The value, or `fallback` when the client gave none. */
bool srv_options_bool(const srv_options *options, srv_field field, bool fallback);
int64_t srv_options_int(const srv_options *options, srv_field field, int64_t fallback);
double srv_options_real(const srv_options *options, srv_field field, double fallback);
const char *srv_options_string(const srv_options *options, srv_field field, const char *fallback);

/* A params.* field that was given and that `backend` does not use is refused. */
attn_status srv_options_check_backend(const srv_options *options, const char *backend,
                                      attn_error *error);

#endif
