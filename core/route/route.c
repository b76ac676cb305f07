/* From facts to a choice: who may serve at all, a policy's ranking of those, and what the client's
 * bounds make of it. */
#include "route/ranking.h"

#include <stdio.h>
#include <string.h>

static const char *const policy_names[] = {[ATTN_GUIDANCE] = "guidance", [ATTN_CHEAPEST] = "cost"};

const char *attn_policy_name(attn_policy policy)
{
    return policy_names[policy];
}

bool attn_policy_find(const char *name, attn_policy *policy)
{
    for (int p = ATTN_GUIDANCE; p <= ATTN_CHEAPEST; p++)
        if (strcmp(policy_names[p], name) == 0) {
            *policy = (attn_policy)p;
            return true;
        }
    return false;
}

/* Make candidates ineligible that the configuration or an error bound rules out. An error that
 * cannot be measured cannot be held, unless there is nothing to hold it against. */
static void narrow(const attn_facts *facts, attn_candidate *candidates, int count)
{
    bool any_measurable = false;
    for (int i = 0; i < count; i++)
        any_measurable |=
            candidates[i].eligible && (candidates[i].measurable || candidates[i].exact);
    for (int i = 0; i < count; i++) {
        attn_candidate *c = &candidates[i];
        if (!c->eligible)
            continue;
        if (facts->require_trained && !c->trained) {
            c->eligible = false;
            snprintf(c->why_not, sizeof c->why_not,
                     "require_trained is set, and nothing says that the weights were trained with "
                     "%s",
                     c->name);
        } else if (facts->max_relative_error > 0 && any_measurable && !c->measurable && !c->exact) {
            c->eligible = false;
            snprintf(c->why_not, sizeof c->why_not,
                     "max_relative_error is given, and the error of %s cannot be measured",
                     c->name);
        }
    }
}

static void rank_named(const attn_facts *facts, const attn_candidate *candidates, int count,
                       attn_ranking *ranking)
{
    *ranking = (attn_ranking){.rule = "explicit"};
    snprintf(ranking->reason, sizeof ranking->reason, "the request names %s", facts->backend);
    for (int i = 0; i < count; i++)
        if (candidates[i].eligible && strcmp(candidates[i].name, facts->backend) == 0)
            ranking->index[ranking->count++] = i;
}

static void rank(const attn_facts *facts, const attn_candidate *candidates, int count,
                 attn_ranking *ranking)
{
    if (facts->backend)
        rank_named(facts, candidates, count, ranking);
    else if (facts->policy == ATTN_CHEAPEST)
        attn_rank_by_cost(facts, candidates, count, ranking);
    else
        attn_rank_by_guidance(facts, candidates, count, ranking);
}

static bool is_ranked(const attn_ranking *ranking, int index)
{
    for (int r = 0; r < ranking->count; r++)
        if (ranking->index[r] == index)
            return true;
    return false;
}

/* An error bound may have to go further than the policy would: behind its ranking come all others,
 * cheapest first, and exact, which cannot exceed it, last of all. A ranking that begins with exact
 * needs none of that. */
static void extend(const attn_facts *facts, const attn_candidate *candidates, int count,
                   attn_ranking *ranking)
{
    attn_ranking policy = *ranking, by_cost;
    if (ranking->count == 0 || candidates[ranking->index[0]].exact)
        return;
    attn_rank_by_cost(facts, candidates, count, &by_cost);
    ranking->count = 0;
    for (int exact = 0; exact <= 1; exact++) {
        const attn_ranking *const sources[] = {&policy, &by_cost};
        for (int s = 0; s < 2; s++)
            for (int r = 0; r < sources[s]->count; r++) {
                int index = sources[s]->index[r];
                if (candidates[index].exact == (exact == 1) && !is_ranked(ranking, index))
                    ranking->index[ranking->count++] = index;
            }
    }
}

/* A backend that was named is not second-guessed by what it is predicted to take. */
static bool misses_deadline(const attn_facts *facts, const attn_candidate *c)
{
    return !facts->backend && facts->deadline_ms > 0 && c->predicted_ms > facts->deadline_ms;
}

static bool is_hopeless(const attn_facts *facts, const attn_candidate *c)
{
    return !facts->backend && facts->max_relative_error > 0 && c->hopeless && !c->exact;
}

/* Say why one is passed over; the first such reason becomes the rule. */
static void pass_over(const attn_facts *facts, attn_candidate *c, attn_choice *choice)
{
    bool slow = misses_deadline(facts, c);
    const char *rule = slow ? "deadline" : "error_bound";
    if (slow)
        snprintf(c->why_not, sizeof c->why_not, "predicted to take %.3g ms, deadline_ms is %.6g",
                 c->predicted_ms, facts->deadline_ms);
    else
        snprintf(c->why_not, sizeof c->why_not,
                 "exceeded max_relative_error %.3g in recent requests", facts->max_relative_error);
    if (strcmp(choice->rule, "deadline") == 0 || strcmp(choice->rule, "error_bound") == 0)
        return;
    choice->rule = rule;
    snprintf(choice->reason + strlen(choice->reason),
             sizeof choice->reason - strlen(choice->reason), "; %s is %s", c->name,
             slow ? "predicted to miss the deadline" : "too far from exact");
}

static void choose(const attn_facts *facts, attn_candidate *candidates, const attn_ranking *ranking,
                   attn_choice *choice)
{
    *choice = (attn_choice){.index = -1, .rule = ranking->rule};
    snprintf(choice->reason, sizeof choice->reason, "%s", ranking->reason);
    for (int r = 0; r < ranking->count; r++) {
        attn_candidate *c = &candidates[ranking->index[r]];
        bool fits = !misses_deadline(facts, c) && !is_hopeless(facts, c);
        if (!fits && choice->index < 0) {
            choice->too_slow |= misses_deadline(facts, c);
            pass_over(facts, c, choice);
        } else if (fits && choice->index < 0) {
            choice->index = ranking->index[r];
        } else if (fits && facts->max_relative_error > 0) {
            choice->next[choice->next_count++] = ranking->index[r];
        }
    }
    choice->too_slow &= choice->index < 0;
    if (choice->index >= 0 && candidates[choice->index].exact)
        choice->next_count = 0;
}

static void mark(const attn_choice *choice, attn_candidate *candidates, int count)
{
    for (int i = 0; i < count; i++) {
        attn_candidate *c = &candidates[i];
        c->chosen = i == choice->index;
        if (c->chosen)
            c->why_not[0] = '\0';
        else if (c->eligible && !c->why_not[0])
            snprintf(c->why_not, sizeof c->why_not, "rule %s prefers %s", choice->rule,
                     choice->index < 0 ? "none" : candidates[choice->index].name);
    }
}

attn_choice attn_route(const attn_facts *facts, attn_candidate *candidates, int count)
{
    attn_ranking ranking;
    attn_choice choice;
    narrow(facts, candidates, count);
    for (int i = 0; i < count; i++)
        if (candidates[i].eligible)
            candidates[i].why_not[0] = '\0';
    rank(facts, candidates, count, &ranking);
    if (facts->max_relative_error > 0 && !facts->backend)
        extend(facts, candidates, count, &ranking);
    choose(facts, candidates, &ranking, &choice);
    mark(&choice, candidates, count);
    return choice;
}
