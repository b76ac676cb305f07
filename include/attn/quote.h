/* A stranger's text inside a sentence: in quotes, printable, and of bounded length. */
#ifndef ATTN_QUOTE_H
#define ATTN_QUOTE_H

#include <stddef.h>

enum {
    ATTN_QUOTE_MIN = 6 /* two quotes, three dots and the end */
};

/* Print `length` bytes at `text` in double quotes at `to` of `size` >= ATTN_QUOTE_MIN bytes: '?'
 * for what is not printable ASCII, and dots for what does not fit. */
void attn_quote(char *to, size_t size, const char *text, size_t length);

/* The same without quotes, and what does not fit is cut off in front: the end of a path says more
 * than its beginning. */
void attn_quote_end(char *to, size_t size, const char *text);

#endif
