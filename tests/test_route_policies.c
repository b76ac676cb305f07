/* What configuration and machine change: the cost policy, require_trained, and a machine without
 * the vector scan, where a recurrence is no gain. */
#include "tests/support/backends.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

/* Cheapest first, as backends_fill predicts. */
static const char *const by_cost[BACKENDS] = {"mamba",  "performer", "hybrid", "window",
                                              "sparse", "linformer", "exact"};

static int cheapest(unsigned eligible)
{
    for (int i = 0; i < BACKENDS; i++)
        if (eligible >> backend_index(by_cost[i]) & 1)
            return backend_index(by_cost[i]);
    return NONE;
}

/* Neither length nor hints matter. */
static void cost_takes_the_least_time(void)
{
    static const int64_t lengths[] = {0, 4095, 4096, 32768, 32769};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (unsigned eligible = 0; eligible <= ALL; eligible++) {
            attn_candidate candidates[BACKENDS];
            attn_facts facts = route_facts(lengths[l], eligible % 2 == 0, eligible % 3 == 0);
            facts.policy = ATTN_CHEAPEST;
            facts.vector_scan = eligible % 5 == 0;
            backends_fill(candidates, eligible);
            attn_choice choice = attn_route(&facts, candidates, BACKENDS);
            CHECK(choice.index == cheapest(eligible), "n = %lld, eligible %#x: chose %s, not %s",
                  (long long)lengths[l], eligible, backend_name(choice.index),
                  backend_name(cheapest(eligible)));
            CHECK(strcmp(choice.rule, "cost") == 0, "rule %s", choice.rule);
            CHECK(choice.next_count == 0 && !choice.too_slow, "no bounds, and goes on to %d",
                  choice.next_count);
        }
}

static void cost_says_what_it_weighed(void)
{
    attn_candidate candidates[BACKENDS];
    attn_facts facts = route_facts(7, false, false);
    facts.policy = ATTN_CHEAPEST;
    backends_fill(candidates, ALL);
    attn_choice choice = attn_route(&facts, candidates, BACKENDS);
    CHECK(strcmp(choice.reason, "n = 7: mamba is predicted to take the least time, 5 ms") == 0,
          "reason \"%s\"", choice.reason);
    CHECK(strcmp(candidates[0].why_not, "rule cost prefers mamba") == 0, "\"%s\"",
          candidates[0].why_not);
}

/* The order of the candidates decides between equals. */
static void equals_go_to_the_first(void)
{
    for (unsigned eligible = 1; eligible <= ALL; eligible++) {
        attn_candidate candidates[BACKENDS];
        attn_facts facts = route_facts(100, false, false);
        int first = 0;
        facts.policy = ATTN_CHEAPEST;
        backends_fill(candidates, eligible);
        while (!(eligible >> first & 1))
            first++;
        for (int i = 0; i < BACKENDS; i++)
            candidates[i].predicted_ms = 3;
        attn_choice choice = attn_route(&facts, candidates, BACKENDS);
        CHECK(choice.index == first, "eligible %#x: chose %s, not %s", eligible,
              backend_name(choice.index), backend_name(first));
    }
}

static void cost_obeys_the_bounds(void)
{
    static const struct {
        double deadline_ms, max_relative_error;
        unsigned hopeless;
        const char *chosen, *rule;
        int next_count;
    } list[] = {
        {5, 0, 0, "mamba", "cost", 0},
        {4.9, 0, 0, NULL, "deadline", 0},
        {0, 0.1, 0, "performer", "cost", 4}, /* window, sparse, linformer, exact */
        {0, 0.1, PERFORMER | WINDOW, "sparse", "error_bound", 2},
        {25, 0.1, PERFORMER, "window", "error_bound", 0},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attn_candidate candidates[BACKENDS];
        attn_facts facts = route_facts(10, false, false);
        facts.policy = ATTN_CHEAPEST;
        facts.deadline_ms = list[i].deadline_ms;
        facts.max_relative_error = list[i].max_relative_error;
        backends_fill(candidates, ALL);
        for (int b = 0; b < BACKENDS; b++)
            candidates[b].hopeless = list[i].hopeless >> b & 1;
        attn_choice choice = attn_route(&facts, candidates, BACKENDS);
        CHECK(choice.index == (list[i].chosen ? backend_index(list[i].chosen) : NONE) &&
                  strcmp(choice.rule, list[i].rule) == 0 && choice.next_count == list[i].next_count,
              "row %zu: chose %s by %s, goes on to %d", i, backend_name(choice.index), choice.rule,
              choice.next_count);
    }
}

/* No fast kernel: fall back. But what only has a recurrence is served at every length. */
static void a_scalar_machine_leaves_recurrence_for_last(void)
{
    static const struct {
        int64_t n;
        bool long_range;
        unsigned eligible;
        const char *chosen, *rule;
    } list[] = {
        {40000, false, ALL, "linformer", "long"},
        {40000, false, ALL & ~LINFORMER, "performer", "long"},
        {40000, false, EXACT | WINDOW | MAMBA | HYBRID, "window", "long"},
        {40000, false, EXACT | MAMBA | HYBRID, "exact", "long"},
        {40000, false, SPARSE | MAMBA, "sparse", "fallback"},
        {40000, false, MAMBA | HYBRID, "mamba", "fallback"},
        {40000, false, HYBRID, "hybrid", "fallback"},
        {40000, true, MAMBA, "mamba", "fallback"},
        {8192, false, MAMBA, "mamba", "fallback"},
        {10, false, MAMBA, "mamba", "fallback"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attn_candidate candidates[BACKENDS];
        attn_facts facts = route_facts(list[i].n, list[i].long_range, false);
        facts.vector_scan = false;
        backends_fill(candidates, list[i].eligible);
        attn_choice choice = attn_route(&facts, candidates, BACKENDS);
        CHECK(choice.index == backend_index(list[i].chosen) &&
                  strcmp(choice.rule, list[i].rule) == 0,
              "row %zu: chose %s by %s", i, backend_name(choice.index), choice.rule);
    }
}

static void a_scalar_machine_obeys_those_who_name_mamba(void)
{
    attn_candidate candidates[BACKENDS];
    attn_facts facts = route_facts(40000, false, false);
    facts.vector_scan = false;
    facts.backend = "mamba";
    backends_fill(candidates, ALL);
    CHECK(attn_route(&facts, candidates, BACKENDS).index == backend_index("mamba"), "not mamba");
}

/* Trained are exact, sparse, performer and hybrid. */
static void untrained_backends_can_be_ruled_out(void)
{
    static const struct {
        int64_t n;
        attn_policy policy;
        unsigned eligible;
        const char *named, *chosen, *rule;
    } list[] = {
        {8192, ATTN_GUIDANCE, ALL, NULL, "performer", "medium"},
        {40000, ATTN_GUIDANCE, ALL, NULL, "hybrid", "long"},
        {40000, ATTN_GUIDANCE, MAMBA | SPARSE, NULL, "sparse", "fallback"},
        {40000, ATTN_GUIDANCE, MAMBA | WINDOW, NULL, NULL, "fallback"},
        {40000, ATTN_CHEAPEST, ALL, NULL, "performer", "cost"},
        {40000, ATTN_CHEAPEST, MAMBA | WINDOW, NULL, NULL, "cost"},
        {10, ATTN_GUIDANCE, ALL, "performer", "performer", "explicit"},
        {10, ATTN_GUIDANCE, ALL, "window", NULL, "explicit"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attn_candidate candidates[BACKENDS];
        attn_facts facts = route_facts(list[i].n, false, false);
        facts.policy = list[i].policy;
        facts.backend = list[i].named;
        facts.require_trained = true;
        backends_fill(candidates, list[i].eligible);
        attn_choice choice = attn_route(&facts, candidates, BACKENDS);
        CHECK(choice.index == (list[i].chosen ? backend_index(list[i].chosen) : NONE) &&
                  strcmp(choice.rule, list[i].rule) == 0,
              "row %zu: chose %s by %s", i, backend_name(choice.index), choice.rule);
        for (int b = 0; b < BACKENDS; b++)
            CHECK(!(list[i].eligible >> b & 1) || candidates[b].trained ||
                      (!candidates[b].eligible && strstr(candidates[b].why_not, "require_trained")),
                  "row %zu: %s is eligible, or is not because \"%s\"", i, backend_name(b),
                  candidates[b].why_not);
    }
}

static void policies_have_names(void)
{
    attn_policy policy = ATTN_GUIDANCE;
    CHECK(attn_policy_find("cost", &policy) && policy == ATTN_CHEAPEST, "cost is %d", policy);
    CHECK(attn_policy_find("guidance", &policy) && policy == ATTN_GUIDANCE, "guidance is %d",
          policy);
    CHECK(strcmp(attn_policy_name(ATTN_CHEAPEST), "cost") == 0, "%s",
          attn_policy_name(ATTN_CHEAPEST));
    static const char *const unknown[] = {"", "Cost", "costs", "cos", "cheapest"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        policy = ATTN_CHEAPEST;
        CHECK(!attn_policy_find(unknown[i], &policy) && policy == ATTN_CHEAPEST, "\"%s\"",
              unknown[i]);
    }
}

static const test_case cases[] = {
    {"cost takes the least time", cost_takes_the_least_time},
    {"cost says what it weighed", cost_says_what_it_weighed},
    {"equals go to the first", equals_go_to_the_first},
    {"cost obeys the bounds", cost_obeys_the_bounds},
    {"a scalar machine leaves recurrence for last", a_scalar_machine_leaves_recurrence_for_last},
    {"a scalar machine obeys those who name mamba", a_scalar_machine_obeys_those_who_name_mamba},
    {"untrained backends can be ruled out", untrained_backends_can_be_ruled_out},
    {"policies have names", policies_have_names},
    {NULL, NULL},
};

int main(void)
{
    return test_main("route_policies", cases);
}
