/* What a client's bounds make of a ranking: deadlines pass over what is slow, error bounds what is
 * hopeless, and an error bound says what to go on to. A backend that is named is taken or nothing
 * is. */
#include "tests/support/backends.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

/* A request and what becomes of it. */
typedef struct circumstance {
    const char *what;
    int64_t n;
    double deadline_ms, max_relative_error;
    unsigned eligible, hopeless;
    const char *chosen; /* NULL: nothing */
    const char *rule;
    const char *next[BACKENDS];
    bool too_slow;
} circumstance;

/* "linformer window exact ", what the choice would go on to. */
static const char *next_text(const attn_choice *choice, char text[128])
{
    text[0] = '\0';
    for (int i = 0; i < choice->next_count; i++)
        snprintf(text + strlen(text), 128 - strlen(text), "%s ", backend_name(choice->next[i]));
    return text;
}

static void check_choice(const circumstance *c, const attn_facts *facts)
{
    attn_candidate candidates[BACKENDS];
    char text[128], wanted[128] = "";
    backends_fill(candidates, c->eligible);
    for (int i = 0; i < BACKENDS; i++)
        candidates[i].hopeless = c->hopeless >> i & 1;
    attn_choice choice = attn_route(facts, candidates, BACKENDS);
    CHECK(choice.index == (c->chosen ? backend_index(c->chosen) : NONE),
          "%s: chose %s, expected %s", c->what, backend_name(choice.index),
          c->chosen ? c->chosen : "none");
    CHECK(strcmp(choice.rule, c->rule) == 0, "%s: rule %s, expected %s", c->what, choice.rule,
          c->rule);
    CHECK(choice.too_slow == c->too_slow, "%s: too_slow is %d", c->what, choice.too_slow);
    for (int i = 0; i < BACKENDS && c->next[i]; i++)
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s ", c->next[i]);
    CHECK(strcmp(next_text(&choice, text), wanted) == 0, "%s: goes on to %s, expected %s", c->what,
          text, wanted);
}

static void check_all(const circumstance *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        attn_facts facts = route_facts(list[i].n, false, false);
        facts.deadline_ms = list[i].deadline_ms;
        facts.max_relative_error = list[i].max_relative_error;
        check_choice(&list[i], &facts);
    }
}

#define CHECK_ALL(list) check_all(list, sizeof(list) / sizeof *(list))

/* The predictions: mamba 5, performer 10, hybrid 15, window 20, sparse 30, linformer 40, exact 100.
 */
static void a_deadline_passes_over_what_is_slow(void)
{
    static const circumstance list[] = {
        {"short in time", 10, 100, 0, ALL, 0, "exact", "short", {NULL}, false},
        {"short and late", 10, 99.9, 0, ALL, 0, NULL, "deadline", {NULL}, true},
        {"none", 8192, 0, 0, ALL, 0, "linformer", "medium", {NULL}, false},
        {"the first fits exactly", 8192, 40, 0, ALL, 0, "linformer", "medium", {NULL}, false},
        {"the first misses", 8192, 39, 0, ALL, 0, "performer", "deadline", {NULL}, false},
        {"two miss",
         8192,
         39,
         0,
         LINFORMER | WINDOW | EXACT,
         0,
         "window",
         "deadline",
         {NULL},
         false},
        {"all of the chain miss", 8192, 9, 0, ALL, 0, NULL, "deadline", {NULL}, true},
        {"sparse is in no chain",
         8192,
         39,
         0,
         LINFORMER | SPARSE,
         0,
         NULL,
         "deadline",
         {NULL},
         true},
        {"a fallback misses too",
         8192,
         29,
         0,
         SPARSE | HYBRID,
         0,
         "hybrid",
         "deadline",
         {NULL},
         false},
        {"long in time", 40000, 5, 0, ALL, 0, "mamba", "long", {NULL}, false},
        {"long and late", 40000, 4, 0, ALL, 0, NULL, "deadline", {NULL}, true},
        {"nothing was eligible", 8192, 1, 0, 0, 0, NULL, "fallback", {NULL}, false},
    };
    CHECK_ALL(list);
}

/* Behind the chain come the others, cheapest first, and exact last. */
static void an_error_bound_says_what_follows(void)
{
    static const circumstance list[] = {
        {"exact first needs none", 10, 0, 0.1, ALL, 0, "exact", "short", {NULL}, false},
        {"the chain, the rest, exact",
         8192,
         0,
         0.1,
         ALL,
         0,
         "linformer",
         "medium",
         {"performer", "window", "sparse", "exact"},
         false},
        {"what cannot be measured leaves",
         40000,
         0,
         0.1,
         ALL,
         0,
         "linformer",
         "long",
         {"performer", "window", "sparse", "exact"},
         false},
        {"even with exact alone to stay",
         40000,
         0,
         0.1,
         EXACT | MAMBA,
         0,
         "exact",
         "long",
         {NULL},
         false},
        {"unless nothing can be",
         40000,
         0,
         0.1,
         MAMBA | HYBRID,
         0,
         "mamba",
         "long",
         {"hybrid"},
         false},
        {"no exact", 8192, 0, 0.1, WINDOW | SPARSE, 0, "window", "medium", {"sparse"}, false},
        {"out of every chain", 8192, 0, 0.1, SPARSE, 0, "sparse", "fallback", {NULL}, false},
        {"those that miss a deadline do not follow",
         8192,
         30,
         0.1,
         ALL,
         0,
         "performer",
         "deadline",
         {"window", "sparse"},
         false},
        {"behind the chain one may be in time",
         8192,
         30,
         0.1,
         LINFORMER | SPARSE | EXACT,
         0,
         "sparse",
         "deadline",
         {NULL},
         false},
        {"nothing is in time", 8192, 1, 0.1, ALL, 0, NULL, "deadline", {NULL}, true},
    };
    CHECK_ALL(list);
}

static void an_error_bound_passes_over_what_is_hopeless(void)
{
    static const circumstance list[] = {
        {"the first",
         8192,
         0,
         0.1,
         ALL,
         LINFORMER,
         "performer",
         "error_bound",
         {"window", "sparse", "exact"},
         false},
        {"one behind it",
         8192,
         0,
         0.1,
         ALL,
         WINDOW,
         "linformer",
         "medium",
         {"performer", "sparse", "exact"},
         false},
        {"all of them", 8192, 0, 0.1, ALL, ALL, "exact", "error_bound", {NULL}, false},
        {"and no exact",
         8192,
         0,
         0.1,
         WINDOW | SPARSE,
         WINDOW | SPARSE,
         NULL,
         "error_bound",
         {NULL},
         false},
        {"and exact too late", 8192, 50, 0.1, ALL, ALL, NULL, "error_bound", {NULL}, true},
        {"the first too slow, the next hopeless",
         8192,
         30,
         0.1,
         ALL,
         PERFORMER,
         "window",
         "deadline",
         {"sparse"},
         false},
        {"no bound, no matter", 8192, 0, 0, ALL, ALL, "linformer", "medium", {NULL}, false},
    };
    CHECK_ALL(list);
}

static void one_that_is_named_is_taken_or_nothing_is(void)
{
    static const circumstance list[] = {
        {"window, in time or not", 8192, 1, 0, ALL, 0, "window", "explicit", {NULL}, false},
        {"window, hopeless or not", 8192, 0, 0.1, ALL, ALL, "window", "explicit", {NULL}, false},
        {"window, both", 8192, 1, 0.1, ALL, ALL, "window", "explicit", {NULL}, false},
        {"window cannot", 8192, 1, 0.1, ALL & ~WINDOW, ALL, NULL, "explicit", {NULL}, false},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        attn_facts facts = route_facts(list[i].n, false, false);
        facts.deadline_ms = list[i].deadline_ms;
        facts.max_relative_error = list[i].max_relative_error;
        facts.backend = "window";
        check_choice(&list[i], &facts);
    }
    attn_candidate candidates[BACKENDS];
    attn_facts facts = route_facts(40000, false, false);
    facts.backend = "mamba";
    facts.max_relative_error = 0.1;
    backends_fill(candidates, ALL);
    CHECK(attn_route(&facts, candidates, BACKENDS).index == NONE, "mamba holds no error bound");
    CHECK(strstr(candidates[5].why_not, "the error of mamba cannot be measured") != NULL, "\"%s\"",
          candidates[5].why_not);
    backends_fill(candidates, MAMBA);
    CHECK(attn_route(&facts, candidates, BACKENDS).index == 5,
          "where nothing can be measured, a bound is a wish");
}

/* The account names the numbers. */
static void reasons_hold_the_numbers(void)
{
    attn_candidate candidates[BACKENDS];
    attn_facts facts = route_facts(8192, false, false);
    facts.deadline_ms = 15;
    facts.max_relative_error = 0.25;
    backends_fill(candidates, ALL);
    candidates[4].hopeless = true;
    candidates[1].predicted_ms = 12;
    attn_choice choice = attn_route(&facts, candidates, BACKENDS);
    CHECK(choice.index == 1 && strcmp(choice.rule, "deadline") == 0, "chose %s by %s",
          backend_name(choice.index), choice.rule);
    CHECK(strcmp(choice.reason,
                 "4096 <= n = 8192 <= 32768; linformer is predicted to miss the deadline") == 0,
          "reason \"%s\"", choice.reason);
    CHECK(strcmp(candidates[3].why_not, "predicted to take 40 ms, deadline_ms is 15") == 0,
          "\"%s\"", candidates[3].why_not);
    CHECK(strcmp(candidates[4].why_not, "exceeded max_relative_error 0.25 in recent requests") == 0,
          "\"%s\"", candidates[4].why_not);
    CHECK(strcmp(candidates[0].why_not, "rule deadline prefers window") == 0, "\"%s\"",
          candidates[0].why_not);
}

static const test_case cases[] = {
    {"a deadline passes over what is slow", a_deadline_passes_over_what_is_slow},
    {"an error bound says what follows", an_error_bound_says_what_follows},
    {"an error bound passes over what is hopeless", an_error_bound_passes_over_what_is_hopeless},
    {"one that is named is taken or nothing is", one_that_is_named_is_taken_or_nothing_is},
    {"reasons hold the numbers", reasons_hold_the_numbers},
    {NULL, NULL},
};

int main(void)
{
    return test_main("route_bounds", cases);
}
