/* Sentences about what was passed over while loading, for the log; a bounded number of them. */
#ifndef CORE_MODEL_WARNINGS_H
#define CORE_MODEL_WARNINGS_H

enum {
    ATTN_WARNINGS_MAX = 16,
    ATTN_WARNING_BYTES = 200
};

typedef struct attn_warnings {
    int count;    /* in `text` */
    int left_out; /* there was no room for these */
    char text[ATTN_WARNINGS_MAX][ATTN_WARNING_BYTES];
} attn_warnings;

void attn_warnings_add(attn_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
