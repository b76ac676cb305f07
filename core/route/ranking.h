/* Candidates in the order in which a policy would take them. */
#ifndef ATTN_RANKING_H
#define ATTN_RANKING_H

#include "attn/route.h"

typedef struct attn_ranking {
    const char *rule; /* static */
    char reason[160];
    int index[ATTN_CANDIDATES_MAX]; /* of eligible candidates, best first */
    int count;
} attn_ranking;

/* The guidance: by the length's chain, and when nothing of it is eligible, whatever else is. */
void attn_rank_by_guidance(const attn_facts *facts, const attn_candidate *candidates, int count,
                           attn_ranking *ranking);

/* Everything eligible, cheapest first; equals in the order of the candidates. */
void attn_rank_by_cost(const attn_facts *facts, const attn_candidate *candidates, int count,
                       attn_ranking *ranking);

#endif
