/* A JSON file from a stranger, read key by key into a struct.
 *
 * The only file of core/model that knows jansson is document.c. It reads the text under limits,
 * duplicate keys refused; a node is a value with the path to it, so that every refusal names file,
 * key path, what was found and what was expected. null counts as absent: transformers and peft
 * write it for what was left unset. */
#ifndef CORE_MODEL_DOCUMENT_H
#define CORE_MODEL_DOCUMENT_H

#include "attn/status.h"
#include "model/warnings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum {
    ATTN_DOCUMENT_MAX = 1 << 20, /* bytes of a configuration */
    ATTN_DOCUMENT_WHAT = 64      /* bytes of a file's name that sentences show */
};

typedef struct attn_document {
    struct json_t *root; /* an object */
    char what[ATTN_DOCUMENT_WHAT];
    attn_warnings *warnings; /* borrowed */
    attn_error *error;       /* borrowed; every refusal of a node goes here */
} attn_document;

/* Read the text, or the file of at most `most` bytes, which hold one object. On failure
 * (ATTN_MALFORMED, ATTN_NO_MEMORY; of a file also ATTN_INVALID) there is nothing to close. */
attn_status attn_document_parse(attn_document *document, const void *text, size_t bytes,
                                const char *what, attn_warnings *warnings, attn_error *error);
attn_status attn_document_read(attn_document *document, const char *path, size_t most,
                               attn_warnings *warnings, attn_error *error);
void attn_document_close(attn_document *document);

/* A value and where it stands. Borrows the document and the parent, which outlive it. */
typedef struct attn_node {
    attn_document *document;
    const struct attn_node *parent; /* NULL: the root */
    const char *key;                /* in an object; NULL: an element, or the root */
    size_t index;                   /* in an array */
    struct json_t *value;           /* NULL: absent or null */
} attn_node;

attn_node attn_document_root(attn_document *document);
attn_node attn_node_member(const attn_node *object, const char *key);

/* Walk an object in the order of the file: the first member, or the one after `previous`; its key
 * is NULL behind the last. */
attn_node attn_node_next(const attn_node *object, const attn_node *previous);

/* Elements of an array or members of an object; else 0. */
size_t attn_node_count(const attn_node *node);
attn_node attn_node_element(const attn_node *array, size_t index);

bool attn_node_is_object(const attn_node *node);
bool attn_node_is_array(const attn_node *node);
bool attn_node_is_bool(const attn_node *node, bool value); /* just this one */

/* The string, which holds no NUL, or NULL when the node is anything else. */
const char *attn_node_string(const attn_node *node);

/* Set the document's error to "<file>: <path> is <found>, expected <format>". */
attn_status attn_node_refuse(const attn_node *node, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add the warning "<file>: <path> <problem>". */
void attn_node_warn(const attn_node *node, const char *problem);

/* The value as an integer or real from `least` to `most`; else refused. */
attn_status attn_node_int(const attn_node *node, int64_t least, int64_t most, int64_t *value);
attn_status attn_node_real(const attn_node *node, double least, double most, double *value);

/* The index of the string among `names`, which end with NULL and of which "" are none. */
attn_status attn_node_choice(const attn_node *node, const char *const *names, int *choice);

#endif
