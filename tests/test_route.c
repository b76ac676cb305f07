/* The guidance policy held against the table of the contract: every boundary, hint and chain. */
#include "attn/route.h"
#include "tests/support/backends.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

typedef struct length_rule {
    int64_t n;
    bool long_range, locality;
    const char *name, *reason;
    const char *chain[BACKENDS + 1]; /* the contract's, without what is not in it */
} length_rule;

#define SHORT   \
    {           \
        "exact" \
    }
#define MEDIUM                                      \
    {                                               \
        "linformer", "performer", "window", "exact" \
    }
#define NEAR                                        \
    {                                               \
        "window", "linformer", "performer", "exact" \
    }
#define FAR                               \
    {                                     \
        "linformer", "performer", "exact" \
    }
#define LONG_ANY                                                       \
    {                                                                  \
        "mamba", "hybrid", "linformer", "performer", "window", "exact" \
    }

static const length_rule rules[] = {
    {0, false, false, "short", "n = 0 < 4096", SHORT},
    {1, true, true, "short", "n = 1 < 4096", SHORT},
    {4095, false, false, "short", "n = 4095 < 4096", SHORT},
    {4095, true, false, "short", "n = 4095 < 4096", SHORT},
    {4095, false, true, "short", "n = 4095 < 4096", SHORT},
    {4096, false, false, "medium", "4096 <= n = 4096 <= 32768", MEDIUM},
    {4096, true, false, "medium", "4096 <= n = 4096 <= 32768 and long_range", FAR},
    {4096, false, true, "medium", "4096 <= n = 4096 <= 32768 and locality", NEAR},
    {4096, true, true, "medium", "4096 <= n = 4096 <= 32768 and long_range", FAR},
    {32768, false, false, "medium", "4096 <= n = 32768 <= 32768", MEDIUM},
    {32768, true, false, "medium", "4096 <= n = 32768 <= 32768 and long_range", FAR},
    {32768, false, true, "medium", "4096 <= n = 32768 <= 32768 and locality", NEAR},
    {32769, false, false, "long", "n = 32769 > 32768", LONG_ANY},
    {32769, false, true, "long", "n = 32769 > 32768", LONG_ANY},
    {32769, true, false, "long_range", "n = 32769 > 32768 and long_range", FAR},
    {32769, true, true, "long_range", "n = 32769 > 32768 and long_range", FAR},
    {INT64_MAX, false, false, "long", "n = 9223372036854775807 > 32768", LONG_ANY},
};

enum {
    RULES = sizeof rules / sizeof *rules
};

/* What the contract chooses: the first eligible of the chain, else the first eligible at all. */
static int expected_choice(const length_rule *rule, unsigned eligible, bool *fallback)
{
    *fallback = false;
    for (int i = 0; rule->chain[i]; i++)
        if (eligible >> backend_index(rule->chain[i]) & 1)
            return backend_index(rule->chain[i]);
    *fallback = true;
    for (int i = 0; i < BACKENDS; i++)
        if (eligible >> i & 1)
            return i;
    return NONE;
}

static void check_marks(const attn_candidate *candidates, const attn_choice *choice,
                        unsigned eligible, const length_rule *rule)
{
    for (int i = 0; i < BACKENDS; i++) {
        const attn_candidate *c = &candidates[i];
        char expected[160] = "";
        if (!(eligible >> i & 1))
            snprintf(expected, sizeof expected, "%s cannot", backend_names[i]);
        else if (i != choice->index)
            snprintf(expected, sizeof expected, "rule %s prefers %s", choice->rule,
                     backend_names[choice->index]);
        CHECK(c->chosen == (i == choice->index), "n = %lld, eligible %#x: %s chosen is %d",
              (long long)rule->n, eligible, backend_names[i], c->chosen);
        CHECK(strcmp(c->why_not, expected) == 0, "n = %lld, eligible %#x: %s: \"%s\"",
              (long long)rule->n, eligible, backend_names[i], c->why_not);
    }
}

/* Every rule with every set of eligible backends: each chain is walked to its end. */
static void every_chain_in_every_circumstance(void)
{
    for (int r = 0; r < RULES; r++) {
        const length_rule *rule = &rules[r];
        attn_facts facts = route_facts(rule->n, rule->long_range, rule->locality);
        for (unsigned eligible = 0; eligible <= ALL; eligible++) {
            attn_candidate candidates[BACKENDS];
            bool fallback;
            int expected = expected_choice(rule, eligible, &fallback);
            backends_fill(candidates, eligible);
            attn_choice choice = attn_route(&facts, candidates, BACKENDS);
            CHECK(choice.index == expected, "n = %lld, eligible %#x: chose %d, expected %d",
                  (long long)rule->n, eligible, choice.index, expected);
            CHECK(strcmp(choice.rule, fallback ? "fallback" : rule->name) == 0,
                  "n = %lld, eligible %#x: rule %s", (long long)rule->n, eligible, choice.rule);
            char reason[200];
            snprintf(reason, sizeof reason, "%s", rule->reason);
            if (fallback && expected >= 0)
                snprintf(reason, sizeof reason,
                         "%s; no backend of its chain can serve, %s is the first that can",
                         rule->reason, candidates[expected].name);
            CHECK(strcmp(choice.reason, reason) == 0, "n = %lld: reason \"%s\"", (long long)rule->n,
                  choice.reason);
            check_marks(candidates, &choice, eligible, rule);
        }
    }
}

/* The chain spelled out once more, as a reader of the contract would try it: make the chosen one
 * ineligible and ask again. */
static void the_next_of_the_chain_follows(void)
{
    for (int r = 0; r < RULES; r++) {
        const length_rule *rule = &rules[r];
        attn_facts facts = route_facts(rule->n, rule->long_range, rule->locality);
        unsigned eligible = ALL;
        for (int step = 0; rule->chain[step]; step++) {
            attn_candidate candidates[BACKENDS];
            backends_fill(candidates, eligible);
            attn_choice choice = attn_route(&facts, candidates, BACKENDS);
            CHECK(choice.index == backend_index(rule->chain[step]),
                  "n = %lld, step %d: %s, expected %s", (long long)rule->n, step,
                  backend_name(choice.index), rule->chain[step]);
            eligible &= ~(1U << backend_index(rule->chain[step]));
        }
    }
}

static void the_client_is_obeyed_or_refused(void)
{
    for (int named = 0; named < BACKENDS; named++) {
        for (unsigned eligible = 0; eligible <= ALL; eligible++) {
            attn_candidate candidates[BACKENDS];
            attn_facts facts = route_facts(100000, true, true);
            char reason[160];
            facts.backend = backend_names[named];
            backends_fill(candidates, eligible);
            attn_choice choice = attn_route(&facts, candidates, BACKENDS);
            int expected = eligible >> named & 1 ? named : NONE;
            snprintf(reason, sizeof reason, "the request names %s", facts.backend);
            CHECK(choice.index == expected, "%s, eligible %#x: chose %d", facts.backend, eligible,
                  choice.index);
            CHECK(strcmp(choice.rule, "explicit") == 0, "rule %s", choice.rule);
            CHECK(strcmp(choice.reason, reason) == 0, "reason \"%s\"", choice.reason);
            for (int i = 0; i < BACKENDS; i++)
                CHECK(candidates[i].chosen == (i == expected), "%s named, %s chosen is %d",
                      facts.backend, backend_names[i], candidates[i].chosen);
        }
    }
}

static void an_unknown_name_chooses_nothing(void)
{
    static const char *const names[] = {"", "Exact", "exac", "exactly", "auto"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        attn_candidate candidates[BACKENDS];
        attn_facts facts = route_facts(10, false, false);
        facts.backend = names[i];
        backends_fill(candidates, ALL);
        attn_choice choice = attn_route(&facts, candidates, BACKENDS);
        CHECK(choice.index == NONE, "\"%s\" chose %d", names[i], choice.index);
    }
}

static void a_choice_among_few(void)
{
    attn_candidate candidates[BACKENDS];
    attn_facts facts = route_facts(8192, false, false);
    backends_fill(candidates, ALL);
    CHECK(attn_route(&facts, candidates, 0).index == NONE, "no candidates, no choice");
    attn_choice choice = attn_route(&facts, candidates, 1);
    CHECK(choice.index == backend_index("exact") && strcmp(choice.rule, "medium") == 0,
          "exact alone ends the chain: %d by %s", choice.index, choice.rule);
    CHECK(!candidates[1].chosen && !candidates[1].why_not[0], "beyond count nothing is touched");
    candidates[0].eligible = false;
    CHECK(attn_route(&facts, candidates, 1).index == NONE, "one, and it cannot");
    choice = attn_route(&facts, candidates + 2, 1);
    CHECK(choice.index == 0 && strcmp(choice.rule, "fallback") == 0,
          "sparse is in no chain: %d by %s", choice.index, choice.rule);
}

static void thresholds_are_configuration(void)
{
    static const struct {
        int64_t short_below, long_above, n;
        const char *rule;
    } list[] = {
        {1, 10, 0, "short"},     {1, 10, 1, "medium"},    {1, 10, 10, "medium"},
        {1, 10, 11, "long"},     {100, 100, 99, "short"}, {100, 100, 100, "medium"},
        {100, 100, 101, "long"}, {100, 50, 75, "short"},  {100, 50, 100, "long"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attn_candidate candidates[BACKENDS];
        attn_facts facts = {.n = list[i].n,
                            .short_below = list[i].short_below,
                            .long_above = list[i].long_above,
                            .vector_scan = true};
        backends_fill(candidates, ALL);
        attn_choice choice = attn_route(&facts, candidates, BACKENDS);
        CHECK(strcmp(choice.rule, list[i].rule) == 0, "%lld in %lld..%lld is %s, expected %s",
              (long long)list[i].n, (long long)list[i].short_below, (long long)list[i].long_above,
              choice.rule, list[i].rule);
    }
}

/* Nothing but chosen and why_not is written, and asking again changes nothing. */
static void a_pure_function_of_facts(void)
{
    for (int r = 0; r < RULES; r++) {
        attn_candidate given[BACKENDS], once[BACKENDS], twice[BACKENDS];
        attn_facts facts = route_facts(rules[r].n, rules[r].long_range, rules[r].locality);
        const attn_facts before = facts;
        unsigned eligible = 0x5b ^ (unsigned)r;
        backends_fill(given, eligible);
        backends_fill(once, eligible);
        backends_fill(twice, eligible);
        attn_choice first = attn_route(&facts, once, BACKENDS);
        attn_route(&facts, twice, BACKENDS);
        attn_choice second = attn_route(&facts, twice, BACKENDS);
        CHECK(first.index == second.index && strcmp(first.rule, second.rule) == 0 &&
                  strcmp(first.reason, second.reason) == 0,
              "rule %d: asked again, chose %d by %s", r, second.index, second.rule);
        CHECK(memcmp(&facts, &before, sizeof facts) == 0, "rule %d: the facts changed", r);
        for (int i = 0; i < BACKENDS; i++) {
            const attn_candidate *a = &given[i], *b = &once[i];
            CHECK(a->name == b->name && a->eligible == b->eligible && a->trained == b->trained &&
                      a->predicted_bytes == b->predicted_bytes &&
                      !(a->predicted_ms < b->predicted_ms || a->predicted_ms > b->predicted_ms),
                  "rule %d: what the caller said of %s changed", r, a->name);
            CHECK(b->chosen == twice[i].chosen && strcmp(b->why_not, twice[i].why_not) == 0,
                  "rule %d: asked again, %s differs", r, a->name);
        }
    }
}

static const test_case cases[] = {
    {"every chain in every circumstance", every_chain_in_every_circumstance},
    {"the next of the chain follows", the_next_of_the_chain_follows},
    {"the client is obeyed or refused", the_client_is_obeyed_or_refused},
    {"an unknown name chooses nothing", an_unknown_name_chooses_nothing},
    {"a choice among few", a_choice_among_few},
    {"thresholds are configuration", thresholds_are_configuration},
    {"a pure function of facts", a_pure_function_of_facts},
    {NULL, NULL},
};

int main(void)
{
    return test_main("route", cases);
}
