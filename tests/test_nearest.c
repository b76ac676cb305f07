/* "Did you mean": by hand, and against the definition of edit distance on random words. */
#include "attn/nearest.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"

#include <string.h>

static const char *key_at(int index)
{
    static const char *const keys[] = {"max_body_bytes", "max_queue", "workers",
                                       "log_level",      "isa",       NULL};
    return keys[index];
}

static const char *only_at(int index)
{
    return index == 0 ? "listen" : NULL;
}

static const char *twin_at(int index)
{
    static const char *const twins[] = {"aa", "bb", "ab", "aab", NULL};
    return twins[index];
}

/* Of many lengths, so that insertions, deletions and substitutions compete. */
static const char *word_at(int index)
{
    static const char *const words[] = {"abcabc", "b", "ca", "accc", "bbbb", "cab", "", NULL};
    return words[index];
}

typedef struct expectation {
    const char *wrong, *nearest; /* NULL: none */
} expectation;

static void check_found(const expectation *e, const char *(*name_at)(int index))
{
    const char *found = attn_nearest(e->wrong, name_at);
    bool same = found && e->nearest ? strcmp(found, e->nearest) == 0 : found == e->nearest;
    CHECK(same, "\"%s\" finds %s, expected %s", e->wrong, found ? found : "none",
          e->nearest ? e->nearest : "none");
}

static void misspellings_find_their_word(void)
{
    static const expectation list[] = {
        {"max_body_bytes", "max_body_bytes"},
        {"max_body_byte", "max_body_bytes"},
        {"max_body_bytess", "max_body_bytes"},
        {"max_bodi_bytes", "max_body_bytes"},
        {"max-body-bytes", "max_body_bytes"},
        {"mx_quue", "max_queue"},
        {"wrokers", "workers"},
        {"worker_count", "workers"},
        {"loglevel", "log_level"},
        {"level", "log_level"},
        {"ISA", "isa"},
        {"", NULL},
        {"\xff\xfe\x80", NULL},
        {"x", NULL},
        {"quantum_flux", NULL},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_found(&list[i], key_at);
}

static void the_first_of_equals_wins(void)
{
    static const expectation list[] = {
        {"ab", "ab"}, {"a", "aa"}, {"b", "bb"}, {"aab", "aab"}, {"", NULL}, {"ba", "aa"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_found(&list[i], twin_at);
}

/* Half of "listen" may be wrong, and no more. */
static void a_single_word_may_be_too_far(void)
{
    static const expectation list[] = {{"listen", "listen"}, {"lis", "listen"},
                                       {"lisxxx", "listen"}, {"lixxxx", NULL},
                                       {"li", NULL},         {"lis_the_n", "listen"},
                                       {"", NULL},           {"something else", NULL}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_found(&list[i], only_at);
}

/* Longer words than the table has room for are compared as far as it goes. */
static void long_words_are_cut(void)
{
    for (size_t length = 60; length < 70; length++) {
        char word[512];
        memset(word, 'x', sizeof word);
        memcpy(word, "workers", 7);
        word[length] = '\0';
        CHECK(!attn_nearest(word, only_at), "%zu characters", length);
        CHECK(!attn_nearest(word, key_at), "%zu characters", length);
    }
    char word[4096];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    CHECK(!attn_nearest(word, twin_at), "a long run of a is near nothing");
}

/* The definition, word for word; only for short words. */
static int distance(const char *a, const char *b)
{
    if (!*a || !*b)
        return (int)(strlen(a) + strlen(b));
    int best = distance(a + 1, b + 1) + (*a != *b);
    int without_a = distance(a + 1, b) + 1, without_b = distance(a, b + 1) + 1;
    best = without_a < best ? without_a : best;
    return without_b < best ? without_b : best;
}

static bool is_near(const char *a, const char *b)
{
    size_t longer = strlen(a) > strlen(b) ? strlen(a) : strlen(b);
    return 2 * (size_t)distance(a, b) <= longer;
}

static void agrees_with_the_definition(void)
{
    test_random random = {1};
    for (int round = 0; round < 2000; round++) {
        char word[7];
        const char *best = NULL;
        int length = random_int(&random, 0, 6);
        for (int i = 0; i < length; i++)
            word[i] = (char)random_int(&random, 'a', 'c');
        word[length] = '\0';
        for (int i = 0; word_at(i); i++)
            if (is_near(word, word_at(i)) &&
                (!best || distance(word, word_at(i)) < distance(word, best)))
                best = word_at(i);
        check_found(&(expectation){word, best}, word_at);
    }
}

static const test_case cases[] = {
    {"misspellings find their word", misspellings_find_their_word},
    {"the first of equals wins", the_first_of_equals_wins},
    {"a single word may be too far", a_single_word_may_be_too_far},
    {"long words are cut", long_words_are_cut},
    {"agrees with the definition", agrees_with_the_definition},
    {NULL, NULL},
};

int main(void)
{
    return test_main("nearest", cases);
}
