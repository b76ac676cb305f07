/* Candidates for tests of the router: every backend, with traits and predictions that tell them
 * apart. */
#ifndef TESTS_BACKENDS_H
#define TESTS_BACKENDS_H

#include "attn/route.h"

enum {
    BACKENDS = 7
};

/* A backend's bit in a set of them, and its place, as an index of such a bit, in the candidates. */
enum {
    EXACT = 1 << 0,
    WINDOW = 1 << 1,
    SPARSE = 1 << 2,
    LINFORMER = 1 << 3,
    PERFORMER = 1 << 4,
    MAMBA = 1 << 5,
    HYBRID = 1 << 6,
    ALL = (1 << BACKENDS) - 1
};

enum {
    NONE = -1
};

/* In the order in which a model or the registry might list them, which no chain follows. */
extern const char *const backend_names[BACKENDS];

/* The place of a name, or NONE. */
int backend_index(const char *name);

/* "none" for NONE. */
const char *backend_name(int index);

/* Candidates of which those in `eligible` may be chosen; the others say "<name> cannot". Exact,
 * sparse, performer and hybrid count as trained. The cheapest is mamba, then performer, hybrid,
 * window, sparse, linformer, and exact. */
void backends_fill(attn_candidate candidates[BACKENDS], unsigned eligible);

/* Facts of a request on a machine with the vector scan, under the guidance with its thresholds. */
attn_facts route_facts(int64_t n, bool long_range, bool locality);

#endif
