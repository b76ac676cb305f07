/* The memory that requests may take together. Reserved before it is allocated, given back after it
 * is freed, from any thread; what is reserved is a bound on what is resident. */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct srv_budget {
    size_t limit;
    atomic_size_t reserved;
} srv_budget;

/* One request's part of the budget. Zero-initialised: nothing. */
typedef struct srv_share {
    size_t bytes;
} srv_share;

/* Make the share `bytes`, more or less than it was. False, and nothing changed, when the budget has
 * not that much left. */
bool srv_share_resize(srv_share *share, srv_budget *budget, size_t bytes);

#endif
