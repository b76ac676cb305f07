/* A file through jansson, whose values become text, so that whoever reads it checks texts alone. */
#include "server/flat.h"

#include "server/text.h"

#include <errno.h>
#include <jansson.h>

enum {
    NUMBER_BYTES = 32, /* a number as text */
};

/* Numbers are spelled into `number`. */
static srv_flat_value value_of(const json_t *value, char number[NUMBER_BYTES])
{
    srv_text text = srv_text_lend(number, NUMBER_BYTES);
    switch (json_typeof(value)) {
    case JSON_STRING:
        return (srv_flat_value){SRV_FLAT_TEXT, json_string_value(value)};
    case JSON_TRUE:
        return (srv_flat_value){SRV_FLAT_BOOL, "true"};
    case JSON_FALSE:
        return (srv_flat_value){SRV_FLAT_BOOL, "false"};
    case JSON_INTEGER:
        srv_text_int(&text, json_integer_value(value));
        return (srv_flat_value){SRV_FLAT_INT, number};
    case JSON_REAL:
        srv_text_real(&text, json_real_value(value));
        return (srv_flat_value){SRV_FLAT_REAL, number};
    default:
        return (srv_flat_value){SRV_FLAT_OTHER, ""};
    }
}

static attn_status load(const char *path, const char *param, json_t **document, attn_error *error)
{
    json_error_t fault;
    /* When its allocations fail jansson may blame the syntax, or drop a byte and go on. */
    errno = 0;
    *document = json_load_file(path, JSON_REJECT_DUPLICATES, &fault);
    if (errno == ENOMEM)
        return attn_error_set(error, ATTN_NO_MEMORY, param, "%.200s: no memory to read it", path);
    if (!*document && fault.line < 1) /* there was nothing to read */
        return attn_error_set(error, ATTN_INVALID, param, "%s: %.200s", param, fault.text);
    if (!*document)
        return attn_error_set(error, ATTN_INVALID, param, "%.160s: line %d: %s", path, fault.line,
                              fault.text);
    if (json_is_object(*document))
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, param, "%.200s: expected a JSON object", path);
}

attn_status srv_flat_read(const char *path, const char *param, srv_flat_member *take, void *context,
                          attn_error *error)
{
    json_t *document, *member;
    const char *key;
    char number[NUMBER_BYTES];
    attn_status status = load(path, param, &document, error);
    if (status == ATTN_OK)
        json_object_foreach(document, key, member)
        {
            const srv_flat_value value = value_of(member, number);
            if (status == ATTN_OK)
                status = take(context, path, key, &value, error);
        }
    json_decref(document);
    return status;
}
