/* What holds of every choice, over many random requests, backends and machines. */
#include "tests/support/backends.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum {
    TRIALS = 200000
};

/* A request with its candidates, as given and as the router left them. */
typedef struct trial {
    int seed;
    attn_facts facts;
    attn_candidate given[BACKENDS], after[BACKENDS];
    attn_choice choice;
} trial;

static bool one_in(test_random *random, int many)
{
    return random_int(random, 1, many) == 1;
}

static attn_facts random_facts(test_random *random)
{
    static const int64_t lengths[] = {0, 1, 4095, 4096, 5000, 32768, 32769, 1 << 20};
    attn_facts facts =
        route_facts(lengths[random_int(random, 0, 7)], one_in(random, 2), one_in(random, 2));
    facts.policy = one_in(random, 3) ? ATTN_CHEAPEST : ATTN_GUIDANCE;
    facts.deadline_ms = one_in(random, 2) ? random_int(random, 1, 120) : 0;
    facts.max_relative_error = one_in(random, 2) ? 0.1 : 0;
    facts.backend = one_in(random, 5) ? backend_names[random_int(random, 0, BACKENDS - 1)] : NULL;
    facts.require_trained = one_in(random, 4);
    facts.vector_scan = one_in(random, 2);
    return facts;
}

static void random_candidates(test_random *random, attn_candidate candidates[BACKENDS])
{
    backends_fill(candidates, (unsigned)random_int(random, 0, ALL));
    for (int i = 0; i < BACKENDS; i++) {
        candidates[i].predicted_ms = random_int(random, 1, 100);
        candidates[i].trained = one_in(random, 2);
        candidates[i].hopeless = candidates[i].measurable && one_in(random, 3);
    }
}

static trial random_trial(int seed)
{
    test_random random = {(uint64_t)seed};
    trial t = {.seed = seed, .facts = random_facts(&random)};
    random_candidates(&random, t.given);
    memcpy(t.after, t.given, sizeof t.after);
    t.choice = attn_route(&t.facts, t.after, BACKENDS);
    return t;
}

/* Said often, so it is checked without words unless it fails. */
#define HOLDS(t, claim)                                                \
    CHECK(claim, "seed %d: not " #claim "; chose %s by %s", (t)->seed, \
          backend_name((t)->choice.index), (t)->choice.rule)

static bool is_late(const trial *t, int index)
{
    return !t->facts.backend && t->facts.deadline_ms > 0 &&
           t->given[index].predicted_ms > t->facts.deadline_ms;
}

static bool is_hopeless(const trial *t, int index)
{
    return !t->facts.backend && t->facts.max_relative_error > 0 && t->given[index].hopeless;
}

static void check_chosen(const trial *t)
{
    int chosen = t->choice.index;
    const attn_candidate *c = &t->given[chosen];
    HOLDS(t, chosen < BACKENDS && c->eligible && t->after[chosen].eligible);
    HOLDS(t, !is_late(t, chosen) && !is_hopeless(t, chosen));
    HOLDS(t, !t->facts.backend || strcmp(c->name, t->facts.backend) == 0);
    HOLDS(t, !t->facts.require_trained || c->trained);
    HOLDS(t, !t->choice.too_slow);
}

/* Nothing is refused while something would do, but for the chain of a deadline. */
static void check_refused(const trial *t)
{
    HOLDS(t, t->choice.next_count == 0);
    for (int i = 0; i < BACKENDS; i++) {
        bool fits = t->after[i].eligible && !is_late(t, i) && !is_hopeless(t, i);
        bool other = t->facts.backend && strcmp(t->facts.backend, t->given[i].name) != 0;
        HOLDS(t, !fits || other || t->choice.too_slow);
    }
}

static void check_next(const trial *t)
{
    unsigned seen = 1U << (t->choice.index < 0 ? 0 : t->choice.index);
    HOLDS(t, t->choice.next_count == 0 || (t->facts.max_relative_error > 0 && !t->facts.backend));
    for (int i = 0; i < t->choice.next_count; i++) {
        int index = t->choice.next[i];
        HOLDS(t, !(seen >> index & 1) && t->after[index].eligible);
        HOLDS(t, !is_late(t, index) && !is_hopeless(t, index));
        HOLDS(t, !t->given[index].exact || i == t->choice.next_count - 1);
        seen |= 1U << index;
    }
}

/* In a chain of the guidance a recurrence stands for speed. */
static void check_scalar(const trial *t)
{
    bool in_chain = strcmp(t->choice.rule, "long") == 0 || strcmp(t->choice.rule, "medium") == 0 ||
                    strcmp(t->choice.rule, "long_range") == 0 ||
                    strcmp(t->choice.rule, "short") == 0;
    if (!t->facts.vector_scan && t->choice.index >= 0)
        HOLDS(t, !in_chain || !t->given[t->choice.index].recurrent);
}

static void check_account(const trial *t)
{
    for (int i = 0; i < BACKENDS; i++) {
        const attn_candidate *before = &t->given[i], *after = &t->after[i];
        HOLDS(t, after->chosen == (i == t->choice.index));
        HOLDS(t, (after->why_not[0] == '\0') == after->chosen);
        HOLDS(t, before->eligible || (!after->eligible && strstr(after->why_not, "cannot")));
    }
    HOLDS(t, t->choice.reason[0] || t->choice.index < 0);
}

static void what_every_choice_keeps(void)
{
    for (int seed = 1; seed <= TRIALS; seed++) {
        const trial t = random_trial(seed);
        if (t.choice.index >= 0)
            check_chosen(&t);
        else
            check_refused(&t);
        check_next(&t);
        check_scalar(&t);
        check_account(&t);
    }
}

static bool same_choice(const attn_choice *a, const attn_choice *b)
{
    return a->index == b->index && strcmp(a->rule, b->rule) == 0 &&
           strcmp(a->reason, b->reason) == 0 && a->too_slow == b->too_slow &&
           a->next_count == b->next_count &&
           memcmp(a->next, b->next, (size_t)a->next_count * sizeof *a->next) == 0;
}

/* Asked again, of the same facts and of what the first answer left. */
static void the_same_facts_make_the_same_choice(void)
{
    for (int seed = 1; seed <= TRIALS / 4; seed++) {
        trial t = random_trial(seed), u = random_trial(seed);
        CHECK(same_choice(&t.choice, &u.choice), "seed %d: another choice", seed);
        attn_choice again = attn_route(&t.facts, t.after, BACKENDS);
        bool same = same_choice(&t.choice, &again);
        /* With an error bound, what the first answer ruled out can no longer be measured. */
        CHECK(same || t.facts.max_relative_error > 0, "seed %d: chose %s, then %s", seed,
              backend_name(t.choice.index), backend_name(again.index));
        for (int i = 0; i < BACKENDS; i++)
            CHECK(t.given[i].name == t.after[i].name &&
                      t.given[i].predicted_bytes == t.after[i].predicted_bytes &&
                      t.given[i].trained == t.after[i].trained &&
                      t.given[i].hopeless == t.after[i].hopeless,
                  "seed %d: what was said of %s changed", seed, t.given[i].name);
    }
}

/* The order in which backends are listed matters to the fallback alone, and to equal predictions.
 */
static void chains_do_not_depend_on_the_order_of_the_list(void)
{
    for (int seed = 1; seed <= TRIALS / 4; seed++) {
        trial t = random_trial(seed);
        attn_candidate turned[BACKENDS];
        t.facts.policy = ATTN_GUIDANCE;
        t.facts.max_relative_error = 0;
        memcpy(t.after, t.given, sizeof t.after);
        for (int i = 0; i < BACKENDS; i++)
            turned[i] = t.given[BACKENDS - 1 - i];
        attn_choice straight = attn_route(&t.facts, t.after, BACKENDS);
        attn_choice back = attn_route(&t.facts, turned, BACKENDS);
        bool same = straight.index == (back.index < 0 ? NONE : BACKENDS - 1 - back.index);
        bool fallback = strcmp(back.rule, "fallback") == 0 ||
                        (strcmp(back.rule, "deadline") == 0 && strcmp(straight.rule, "deadline"));
        CHECK(same || fallback || strcmp(straight.rule, "deadline") == 0,
              "seed %d: %s by %s, turned round %d by %s", seed, backend_name(straight.index),
              straight.rule, back.index, back.rule);
    }
}

/* More time never turns an answer into a refusal. */
static void more_time_never_hurts(void)
{
    for (int seed = 1; seed <= TRIALS / 4; seed++) {
        trial t = random_trial(seed);
        if (t.choice.index < 0)
            continue;
        t.facts.deadline_ms *= 2;
        CHECK(attn_route(&t.facts, t.given, BACKENDS).index >= 0, "seed %d: refused with %g ms",
              seed, t.facts.deadline_ms);
    }
}

static const test_case cases[] = {
    {"what every choice keeps", what_every_choice_keeps},
    {"the same facts make the same choice", the_same_facts_make_the_same_choice},
    {"chains do not depend on the order of the list",
     chains_do_not_depend_on_the_order_of_the_list},
    {"more time never hurts", more_time_never_hurts},
    {NULL, NULL},
};

int main(void)
{
    return test_main("route_random", cases);
}
