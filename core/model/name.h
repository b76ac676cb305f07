/* Names of tensors and modules in two parts. */
#ifndef CORE_MODEL_NAME_H
#define CORE_MODEL_NAME_H

#include <string.h>

/* strcmp of `prefix` and `name` joined with `whole`. */
static inline int attn_name_compare(const char *prefix, const char *name, const char *whole)
{
    size_t length = strlen(prefix);
    int order = strncmp(prefix, whole, length);
    return order ? order : strcmp(name, whole + length);
}

#endif
