/* jansson behind a few questions. Its own limits bound the rest: 2048 levels of nesting, numbers
 * that fit, UTF-8, no NUL in strings. */
#include "model/document.h"

#include "attn/quote.h"
#include "model/file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    PATH_BYTES = 256, /* of a key path before it is cut to what errors hold */
    PATH_SHOWN = 64,
    FOUND_BYTES = 56
};

/* Opening */

static attn_status malformed(attn_document *document, const json_error_t *cause)
{
    char text[JSON_ERROR_TEXT_LENGTH];
    attn_quote_end(text, sizeof text, cause->text);
    return attn_error_set(document->error, ATTN_MALFORMED, document->what, "%s: line %d: %s",
                          document->what, cause->line, text);
}

attn_status attn_document_parse(attn_document *document, const void *text, size_t bytes,
                                const char *what, attn_warnings *warnings, attn_error *error)
{
    *document = (attn_document){.warnings = warnings, .error = error};
    attn_quote_end(document->what, sizeof document->what, what);
    json_error_t cause;
    /* When its allocations fail jansson may blame the syntax, or drop a byte and go on. */
    errno = 0;
    document->root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &cause);
    attn_status status = ATTN_OK;
    if (errno == ENOMEM)
        status = attn_error_set(error, ATTN_NO_MEMORY, document->what, "%s: no memory to read it",
                                document->what);
    else if (!document->root)
        status = malformed(document, &cause);
    else if (!json_is_object(document->root))
        status = attn_error_set(error, ATTN_MALFORMED, document->what, "%s: expected a JSON object",
                                document->what);
    if (status != ATTN_OK)
        attn_document_close(document);
    return status;
}

attn_status attn_document_read(attn_document *document, const char *path, size_t most,
                               attn_warnings *warnings, attn_error *error)
{
    attn_file file;
    attn_status status = attn_file_map(path, &file, error);
    if (status != ATTN_OK)
        return status;
    if (file.size > most) {
        char shown[ATTN_DOCUMENT_WHAT];
        attn_quote_end(shown, sizeof shown, path);
        status = attn_error_set(error, ATTN_MALFORMED, shown,
                                "%s: has %zu bytes, more than the %zu that are read", shown,
                                file.size, most);
    } else {
        status = attn_document_parse(document, file.bytes, file.size, path, warnings, error);
    }
    attn_file_unmap(&file);
    return status;
}

void attn_document_close(attn_document *document)
{
    json_decref(document->root);
    document->root = NULL;
}

/* Nodes */

static json_t *present(json_t *value)
{
    return json_is_null(value) ? NULL : value;
}

attn_node attn_document_root(attn_document *document)
{
    return (attn_node){.document = document, .value = document->root};
}

attn_node attn_node_member(const attn_node *object, const char *key)
{
    return (attn_node){.document = object->document,
                       .parent = object,
                       .key = key,
                       .value = present(json_object_get(object->value, key))};
}

attn_node attn_node_next(const attn_node *object, const attn_node *previous)
{
    void *at = previous ? json_object_key_to_iter(previous->key) : NULL;
    at = previous ? json_object_iter_next(object->value, at) : json_object_iter(object->value);
    return (attn_node){.document = object->document,
                       .parent = object,
                       .key = at ? json_object_iter_key(at) : NULL,
                       .value = at ? present(json_object_iter_value(at)) : NULL};
}

size_t attn_node_count(const attn_node *node)
{
    return json_is_array(node->value) ? json_array_size(node->value)
                                      : json_object_size(node->value);
}

attn_node attn_node_element(const attn_node *array, size_t index)
{
    return (attn_node){.document = array->document,
                       .parent = array,
                       .index = index,
                       .value = present(json_array_get(array->value, index))};
}

bool attn_node_is_object(const attn_node *node)
{
    return json_is_object(node->value);
}

bool attn_node_is_array(const attn_node *node)
{
    return json_is_array(node->value);
}

bool attn_node_is_bool(const attn_node *node, bool value)
{
    return value ? json_is_true(node->value) : json_is_false(node->value);
}

const char *attn_node_string(const attn_node *node)
{
    return json_string_value(node->value);
}

/* Refusals */

/* Print "layers[3].window" and return its length. */
static size_t print_path(const attn_node *node, char *to, size_t room)
{
    if (!node->parent)
        return 0;
    size_t used = print_path(node->parent, to, room);
    int length = node->key ? snprintf(to + used, room - used, "%s%s", used ? "." : "", node->key)
                           : snprintf(to + used, room - used, "[%zu]", node->index);
    return used + (size_t)length < room ? used + (size_t)length : room - 1;
}

static void show_path(const attn_node *node, char to[PATH_SHOWN])
{
    char path[PATH_BYTES] = "";
    print_path(node, path, sizeof path);
    attn_quote_end(to, PATH_SHOWN, path);
}

static void show_found(const json_t *value, char to[FOUND_BYTES])
{
    if (!value)
        snprintf(to, FOUND_BYTES, "missing");
    else if (json_is_string(value))
        attn_quote(to, FOUND_BYTES, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        snprintf(to, FOUND_BYTES, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value)) /* with its point, lest 8.0 be told from 8 by nobody */
        snprintf(to, FOUND_BYTES, "%#g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(to, FOUND_BYTES, json_is_true(value) ? "true" : "false");
    else
        snprintf(to, FOUND_BYTES, json_is_array(value) ? "an array" : "an object");
}

attn_status attn_node_refuse(const attn_node *node, attn_status status, const char *format, ...)
{
    char path[PATH_SHOWN], found[FOUND_BYTES], expected[sizeof node->document->error->message];
    show_path(node, path);
    show_found(node->value, found);
    va_list args;
    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    return attn_error_set(node->document->error, status, path, "%s: %s is %s, expected %s",
                          node->document->what, path, found, expected);
}

void attn_node_warn(const attn_node *node, const char *problem)
{
    char path[PATH_SHOWN];
    show_path(node, path);
    attn_warnings_add(node->document->warnings, "%s: %s %s", node->document->what, path, problem);
}

/* Values */

attn_status attn_node_int(const attn_node *node, int64_t least, int64_t most, int64_t *value)
{
    int64_t found = json_integer_value(node->value);
    if (!json_is_integer(node->value) || found < least || found > most)
        return attn_node_refuse(node, ATTN_INVALID, "a whole number from %" PRId64 " to %" PRId64,
                                least, most);
    *value = found;
    return ATTN_OK;
}

attn_status attn_node_real(const attn_node *node, double least, double most, double *value)
{
    double found = json_number_value(node->value);
    if (!json_is_number(node->value) || found < least || found > most)
        return attn_node_refuse(node, ATTN_INVALID, "a number from %g to %g", least, most);
    *value = found;
    return ATTN_OK;
}

static void list_names(const char *const *names, char *to, size_t room)
{
    size_t used = 0;
    for (; *names && used < room; names++) {
        const char *between = !used ? "" : names[1] ? ", " : " or ";
        if (**names)
            used += (size_t)snprintf(to + used, room - used, "%s\"%s\"", between, *names);
    }
}

attn_status attn_node_choice(const attn_node *node, const char *const *names, int *choice)
{
    const char *found = attn_node_string(node);
    for (int i = 0; found && *found && names[i]; i++) {
        if (strcmp(found, names[i]) == 0) {
            *choice = i;
            return ATTN_OK;
        }
    }
    char list[160] = "";
    list_names(names, list, sizeof list);
    return attn_node_refuse(node, ATTN_INVALID, "%s", list);
}
