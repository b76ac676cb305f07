/* "Did you mean": by hand, and against the definition of edit distance on random words. */
#include "server/nearest.h"
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
    const char *wrong, *nearest;
} expectation;

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
        {"", "isa"},
        {"\xff\xfe\x80", "isa"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const char *found = srv_nearest(list[i].wrong, key_at);
        CHECK(strcmp(found, list[i].nearest) == 0, "\"%s\" finds %s, expected %s", list[i].wrong,
              found, list[i].nearest);
    }
}

static void the_first_of_equals_wins(void)
{
    static const expectation list[] = {
        {"ab", "ab"}, {"a", "aa"}, {"b", "bb"}, {"aab", "aab"}, {"", "aa"}, {"ba", "aa"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const char *found = srv_nearest(list[i].wrong, twin_at);
        CHECK(strcmp(found, list[i].nearest) == 0, "\"%s\" finds %s, expected %s", list[i].wrong,
              found, list[i].nearest);
    }
}

static void a_single_word_is_always_nearest(void)
{
    static const char *const words[] = {"", "x", "listen", "something else altogether"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(strcmp(srv_nearest(words[i], only_at), "listen") == 0, "for \"%s\"", words[i]);
}

/* Longer words than the table has room for are compared as far as it goes. */
static void long_words_are_cut(void)
{
    for (size_t length = 60; length < 70; length++) {
        char word[512];
        memset(word, 'x', sizeof word);
        memcpy(word, "workers", 7);
        word[length] = '\0';
        CHECK(strcmp(srv_nearest(word, only_at), "listen") == 0, "%zu characters", length);
        CHECK(srv_nearest(word, key_at) != NULL, "%zu characters", length);
    }
    char word[4096];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    CHECK(strcmp(srv_nearest(word, twin_at), "aa") == 0, "a long run of a is nearest to the a's");
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

static void agrees_with_the_definition(void)
{
    test_random random = {1};
    for (int round = 0; round < 2000; round++) {
        char word[7];
        int length = random_int(&random, 0, 6), best = 0;
        for (int i = 0; i < length; i++)
            word[i] = (char)random_int(&random, 'a', 'c');
        word[length] = '\0';
        for (int i = 1; word_at(i); i++)
            if (distance(word, word_at(i)) < distance(word, word_at(best)))
                best = i;
        const char *found = srv_nearest(word, word_at);
        CHECK(strcmp(found, word_at(best)) == 0, "\"%s\" finds %s, expected %s", word, found,
              word_at(best));
    }
}

static const test_case cases[] = {
    {"misspellings find their word", misspellings_find_their_word},
    {"the first of equals wins", the_first_of_equals_wins},
    {"a single word is always nearest", a_single_word_is_always_nearest},
    {"long words are cut", long_words_are_cut},
    {"agrees with the definition", agrees_with_the_definition},
    {NULL, NULL},
};

int main(void)
{
    return test_main("nearest", cases);
}
