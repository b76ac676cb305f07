/* Tables of keys: a field is a key, where it may stand, and the member of a struct for its value.
 */
#ifndef CORE_MODEL_FIELDS_H
#define CORE_MODEL_FIELDS_H

#include "model/document.h"

typedef enum attn_field_kind {
    ATTN_FIELD_INT,    /* int64_t, from least to most */
    ATTN_FIELD_REAL,   /* double, from least to most */
    ATTN_FIELD_BOOL,   /* bool */
    ATTN_FIELD_SWITCH, /* int: 1 for false, 2 for true */
    ATTN_FIELD_CHOICE, /* int: as attn_node_choice */
    ATTN_FIELD_OTHER,  /* known, but read elsewhere or not at all */
} attn_field_kind;

typedef struct attn_field {
    unsigned where; /* bits, of the reader's choice */
    const char *key;
    attn_field_kind kind;
    size_t offset;
    double least, most;       /* whole numbers up to 2^53 for ATTN_FIELD_INT */
    const char *const *names; /* NULL-terminated */
} attn_field;

/* Give the members of `to` the values that `object` has for the fields of `where`; what is absent
 * stays as it is. The fields end with a NULL key. */
attn_status attn_fields_read(const attn_node *object, const attn_field *fields, unsigned where,
                             void *to);

/* Warn about every key of `object` that is no field of `where`. */
void attn_fields_warn(const attn_node *object, const attn_field *fields, unsigned where);

#endif
