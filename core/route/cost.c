/* The cost policy: the least predicted time. */
#include "route/ranking.h"

#include <stdio.h>

void attn_rank_by_cost(const attn_facts *facts, const attn_candidate *candidates, int count,
                       attn_ranking *ranking)
{
    *ranking = (attn_ranking){.rule = "cost"};
    for (int i = 0; i < count; i++) {
        int at = ranking->count;
        if (!candidates[i].eligible)
            continue;
        for (;
             at > 0 && candidates[i].predicted_ms < candidates[ranking->index[at - 1]].predicted_ms;
             at--)
            ranking->index[at] = ranking->index[at - 1];
        ranking->index[at] = i;
        ranking->count++;
    }
    if (ranking->count)
        snprintf(ranking->reason, sizeof ranking->reason,
                 "n = %lld: %s is predicted to take the least time, %.3g ms", (long long)facts->n,
                 candidates[ranking->index[0]].name, candidates[ranking->index[0]].predicted_ms);
}
