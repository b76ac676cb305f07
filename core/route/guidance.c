/* The guidance policy: exact while it is cheap, linear backends for the middle, recurrent state for
 * the very long, low rank where the very long needs distant keys. */
#include "route/ranking.h"

#include <stdio.h>
#include <string.h>

enum {
    CHAIN = 8
};

typedef struct length_rule {
    const char *name;
    const char *chain[CHAIN]; /* best first; NULL-terminated */
} length_rule;

static const length_rule short_rule = {"short", {"exact"}};
static const length_rule medium = {"medium", {"linformer", "performer", "window", "exact"}};
static const length_rule medium_near = {"medium", {"window", "linformer", "performer", "exact"}};
static const length_rule medium_far = {"medium", {"linformer", "performer", "exact"}};
static const length_rule long_far = {"long_range", {"linformer", "performer", "exact"}};
static const length_rule long_any = {
    "long", {"mamba", "hybrid", "linformer", "performer", "window", "exact"}};

static const length_rule *rule_for(const attn_facts *f)
{
    if (f->n < f->short_below)
        return &short_rule;
    if (f->n > f->long_above)
        return f->long_range ? &long_far : &long_any;
    return f->long_range ? &medium_far : f->locality ? &medium_near : &medium;
}

static void explain_length(const attn_facts *f, char *reason, size_t size)
{
    long long n = f->n, low = f->short_below, high = f->long_above;
    if (n < low)
        snprintf(reason, size, "n = %lld < %lld", n, low);
    else if (n > high)
        snprintf(reason, size, "n = %lld > %lld%s", n, high,
                 f->long_range ? " and long_range" : "");
    else
        snprintf(reason, size, "%lld <= n = %lld <= %lld%s", low, n, high,
                 f->long_range ? " and long_range"
                 : f->locality ? " and locality"
                               : "");
}

static int find(const attn_candidate *candidates, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(candidates[i].name, name) == 0)
            return i;
    return -1;
}

/* In a chain a recurrence stands for speed, which only the vector scan has. */
static bool suits_chain(const attn_facts *facts, const attn_candidate *c)
{
    return c->eligible && (facts->vector_scan || !c->recurrent);
}

static void explain_fallback(const char *first, char *reason, size_t size)
{
    size_t used = strlen(reason);
    snprintf(reason + used, size - used,
             "; no backend of its chain can serve, %s is the first that can", first);
}

void attn_rank_by_guidance(const attn_facts *facts, const attn_candidate *candidates, int count,
                           attn_ranking *ranking)
{
    const length_rule *rule = rule_for(facts);
    *ranking = (attn_ranking){.rule = rule->name};
    explain_length(facts, ranking->reason, sizeof ranking->reason);
    for (const char *const *name = rule->chain; *name; name++) {
        int i = find(candidates, count, *name);
        if (i >= 0 && suits_chain(facts, &candidates[i]))
            ranking->index[ranking->count++] = i;
    }
    if (ranking->count)
        return;
    ranking->rule = "fallback";
    for (int i = 0; i < count; i++)
        if (candidates[i].eligible)
            ranking->index[ranking->count++] = i;
    if (ranking->count)
        explain_fallback(candidates[ranking->index[0]].name, ranking->reason,
                         sizeof ranking->reason);
}
