/* Make an allocation of our own code fail, and count what is not given back.
 *
 * The program is linked with -Wl,--wrap for malloc, calloc, realloc, reallocarray, aligned_alloc
 * and free, which reaches the calls in our objects and in the tests, not those inside libraries. */
#ifndef TESTS_ALLOC_INJECT_H
#define TESTS_ALLOC_INJECT_H

#include <stdbool.h>

/* From now on, in any thread, let the `number`-th allocation (from 1) fail, and with `all_after`
 * every later one too. */
void inject_start(long number, bool all_after);

/* Let allocations succeed again. Whether one has failed since the start. */
bool inject_stop(void);

/* Blocks that were allocated and not freed. */
long inject_live(void);

#endif
