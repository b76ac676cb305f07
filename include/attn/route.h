/* Which backend serves a request: a pure function of facts. No clock, no randomness, no globals. */
#ifndef ATTN_ROUTE_H
#define ATTN_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the request says and what the policy's configuration holds. */
typedef struct attn_facts {
    int64_t n;           /* largest valid key count of the request */
    bool long_range;     /* the client needs distant keys */
    bool locality;       /* the client says that near keys suffice */
    const char *backend; /* the backend the client named, or NULL */
    int64_t short_below; /* n below this is short */
    int64_t long_above;  /* n above this is long */
} attn_facts;

/* One backend as the router sees it. The caller fills the first part by planning. */
typedef struct attn_candidate {
    const char *name; /* static, or as long-lived as whoever plans */
    bool eligible;
    char why_not[160]; /* of an ineligible one from its plan; of others from the router */
    double predicted_ms;
    size_t predicted_bytes;
    bool trained; /* exact, or weights trained with it: its answer is no approximation of another */
    bool chosen;  /* by the router */
} attn_candidate;

typedef struct attn_choice {
    int index;        /* of the chosen candidate; -1: none is eligible */
    const char *rule; /* "explicit", "short", "medium", "long_range", "long", "fallback" */
    char reason[160];
} attn_choice;

/* The guidance policy: the length decides the chain, the first eligible backend of it is taken, and
 * when there is none the first eligible candidate at all (rule "fallback"). */
attn_choice attn_route_guidance(const attn_facts *facts, attn_candidate *candidates, int count);

#endif
