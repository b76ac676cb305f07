/* "Did you mean": the known name closest to a misspelt one. */
#ifndef ATTN_NEAREST_H
#define ATTN_NEAREST_H

#include <limits.h>
#include <stdbool.h>

/* Whether `name` is closer to `wrong` than *least, which it then lowers and which begins as
 * ATTN_NOT_NEAR. Closeness counts insertions, deletions and substitutions; case does not. What
 * differs in more than half of the longer of both is not close at all. */
enum {
    ATTN_NOT_NEAR = INT_MAX
};
bool attn_nearer(const char *wrong, const char *name, int *least);

/* The closest name, the first of equals; NULL: none is close. `name_at` gives the known names by
 * index, then NULL. */
const char *attn_nearest(const char *wrong, const char *(*name_at)(int index));

#endif
