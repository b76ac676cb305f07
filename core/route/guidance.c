/* The guidance policy: exact while it is cheap, linear backends for the middle, recurrent state for
 * the very long, low rank where the very long needs distant keys. */
#include "attn/route.h"

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

static int first_eligible(const length_rule *rule, const attn_candidate *candidates, int count)
{
    for (const char *const *name = rule->chain; *name; name++) {
        int i = find(candidates, count, *name);
        if (i >= 0 && candidates[i].eligible)
            return i;
    }
    return -1;
}

static void mark(attn_choice *choice, attn_candidate *candidates, int count)
{
    for (int i = 0; i < count; i++) {
        attn_candidate *c = &candidates[i];
        c->chosen = i == choice->index;
        if (!c->chosen && c->eligible)
            snprintf(c->why_not, sizeof c->why_not, "rule %s prefers %s", choice->rule,
                     choice->index < 0 ? "none" : candidates[choice->index].name);
    }
}

attn_choice attn_route_guidance(const attn_facts *facts, attn_candidate *candidates, int count)
{
    attn_choice choice = {.index = -1};
    if (facts->backend) {
        choice.rule = "explicit";
        choice.index = find(candidates, count, facts->backend);
        if (choice.index >= 0 && !candidates[choice.index].eligible)
            choice.index = -1;
        snprintf(choice.reason, sizeof choice.reason, "the request names %s", facts->backend);
    } else {
        const length_rule *rule = rule_for(facts);
        choice.rule = rule->name;
        choice.index = first_eligible(rule, candidates, count);
        explain_length(facts, choice.reason, sizeof choice.reason);
        for (int i = 0; i < count && choice.index < 0; i++) {
            choice.rule = "fallback";
            choice.index = candidates[i].eligible ? i : -1;
        }
    }
    mark(&choice, candidates, count);
    return choice;
}
