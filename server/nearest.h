/* "Did you mean": the known name closest to a misspelt one. */
#ifndef SERVER_NEAREST_H
#define SERVER_NEAREST_H

/* The name with the fewest insertions, deletions and substitutions between it and `wrong`.
 * `name_at` gives the known names by index, then NULL; there is at least one. */
const char *srv_nearest(const char *wrong, const char *(*name_at)(int index));

#endif
