/* Which backend serves a request: a pure function of facts. No clock, no randomness, no globals. */
#ifndef ATTN_ROUTE_H
#define ATTN_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ATTN_CANDIDATES_MAX = 8
};

/* What ranks the backends. */
typedef enum attn_policy {
    ATTN_GUIDANCE, /* by length: exact while it is cheap, then chains of approximations */
    ATTN_CHEAPEST, /* by predicted time alone */
} attn_policy;

/* "guidance", "cost". */
const char *attn_policy_name(attn_policy policy);
bool attn_policy_find(const char *name, attn_policy *policy);

/* What the request says, what the machine can, and what the policy's configuration holds. */
typedef struct attn_facts {
    attn_policy policy;
    int64_t n;                 /* largest valid key count of the request */
    bool long_range;           /* the client needs distant keys */
    bool locality;             /* the client says that near keys suffice */
    double deadline_ms;        /* time the client allows; 0: any */
    double max_relative_error; /* distance to exact attention the client allows; 0: any */
    const char *backend;       /* the backend the client named, or NULL */
    int64_t short_below;       /* n below this is short */
    int64_t long_above;        /* n above this is long */
    bool require_trained;      /* untrained backends are not eligible */
    bool vector_scan;          /* this machine runs a recurrence vectorised */
} attn_facts;

/* One backend as the router sees it. The caller fills the first part by planning. */
typedef struct attn_candidate {
    const char *name; /* static, or as long-lived as whoever plans */
    bool eligible;
    char why_not[160]; /* of an ineligible one from its plan; of others from the router */
    double predicted_ms;
    size_t predicted_bytes;
    bool trained;    /* exact, or weights trained with it: no approximation of another */
    bool exact;      /* it is what errors are measured against */
    bool recurrent;  /* a scan along the sequence */
    bool measurable; /* its distance to exact attention can be sampled */
    bool hopeless;   /* it exceeded the allowed distance so often that trying is a waste */
    bool chosen;     /* by the router */
} attn_candidate;

typedef struct attn_choice {
    int index;        /* of the chosen candidate; -1: none will do */
    const char *rule; /* "explicit", "short", "medium", "long_range", "long", "fallback", "cost",
                         "deadline", "error_bound" */
    char reason[200];
    bool too_slow; /* with index -1: there were some, but none that fits the deadline */
    /* With an error bound: what to go on to, in turn, while the answer exceeds it. */
    int next[ATTN_CANDIDATES_MAX];
    int next_count;
} attn_choice;

/* Choose. Of the candidates, eligible, why_not and chosen are written.
 *
 * A backend the client named is taken or nothing is. Else the policy ranks what is eligible, a
 * deadline passes over what is predicted to miss it, and an error bound passes over what is
 * hopeless. */
attn_choice attn_route(const attn_facts *facts, attn_candidate *candidates, int count);

#endif
