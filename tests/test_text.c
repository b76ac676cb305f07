/* The growing text: growth, failure that sticks, JSON strings judged by jansson, numbers that read
 * back. */
#include "server/text.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void grows(void)
{
    srv_text text = SRV_TEXT_EMPTY;
    size_t length = 0;
    for (int i = 0; i < 5000; i++) {
        srv_text_format(&text, "%04d,", i);
        srv_text_string(&text, "");
        CHECK(text.length == (size_t)(i + 1) * 5, "%zu bytes after piece %d", text.length, i);
    }
    char *data = srv_text_release(&text, &length);
    CHECK(data && length == 25000 && strlen(data) == length, "length %zu", length);
    for (int i = 0; data && i < 5000; i++)
        CHECK(atoi(data + 5 * i) == i, "piece %d is %.5s", i, data + 5 * i);
    free(data);
    CHECK(!text.data && !text.length && !text.failed, "release must leave the text empty");
}

static void releases_an_empty_string(void)
{
    srv_text text = {0};
    size_t length = 1;
    char *data = srv_text_release(&text, &length);
    CHECK(data && length == 0 && data[0] == '\0', "length %zu", length);
    free(data);
}

static void failure_sticks(void)
{
    srv_text text = SRV_TEXT_EMPTY;
    volatile size_t too_much = SIZE_MAX - 2; /* volatile: the compiler would see through it */
    srv_text_string(&text, "kept");
    srv_text_add(&text, "x", too_much);
    CHECK(text.failed, "%zu bytes cannot be had", too_much);
    srv_text_string(&text, "lost");
    srv_text_real(&text, 1.5);
    srv_text_json(&text, "lost");
    CHECK(text.length == 4 && strcmp(text.data, "kept") == 0, "text is %s", text.data);
    CHECK(!srv_text_release(&text, NULL), "a failed text must not be released");

    srv_text_string(&text, "again");
    srv_text_add(&text, "x", too_much);
    srv_text_rewind(&text, 1);
    srv_text_string(&text, "nd");
    CHECK(!text.failed && strcmp(text.data, "and") == 0, "after the rewind: %s", text.data);
    srv_text_free(&text);
}

static void lent_text_stays_inside(void)
{
    char buffer[9] = "........";
    buffer[8] = '#';
    srv_text text = srv_text_lend(buffer, 8);
    srv_text_string(&text, "1234567");
    CHECK(!text.failed && strcmp(buffer, "1234567") == 0, "seven bytes and a NUL fit eight");
    srv_text_string(&text, "8");
    CHECK(text.failed && text.length == 7, "an eighth does not");
    srv_text_rewind(&text, 3);
    srv_text_format(&text, "%s", "abcde");
    CHECK(text.failed && strcmp(buffer, "123") == 0, "formatted: %s", buffer);
    CHECK(buffer[8] == '#', "wrote behind the buffer");
    srv_text_free(&text);
}

static void utf8_is_strict(void)
{
    static const struct {
        const char *bytes;
        size_t length;
    } cases[] = {
        {"", 1},
        {"a", 1},
        {"\x7f", 1},
        {"\x80", 0},             /* a continuation byte alone */
        {"\xc0\x80", 0},         /* NUL, overlong */
        {"\xc1\xbf", 0},         /* U+007F, overlong */
        {"\xc2\x80", 2},         /* U+0080 */
        {"\xc2", 0},             /* cut off */
        {"\xc2 ", 0},            /* not continued */
        {"\xdf\xbf", 2},         /* U+07FF */
        {"\xe0\x9f\xbf", 0},     /* U+07FF, overlong */
        {"\xe0\xa0\x80", 3},     /* U+0800 */
        {"\xe2\x82", 0},         /* cut off */
        {"\xed\x9f\xbf", 3},     /* U+D7FF */
        {"\xed\xa0\x80", 0},     /* U+D800, a surrogate */
        {"\xee\x80\x80", 3},     /* U+E000 */
        {"\xef\xbf\xbf", 3},     /* U+FFFF */
        {"\xf0\x8f\xbf\xbf", 0}, /* U+FFFF, overlong */
        {"\xf0\x90\x80\x80", 4}, /* U+10000 */
        {"\xf4\x8f\xbf\xbf", 4}, /* U+10FFFF */
        {"\xf4\x90\x80\x80", 0}, /* U+110000 */
        {"\xf5\x80\x80\x80", 0}, /* beyond */
        {"\xff", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(srv_utf8_length(cases[i].bytes) == cases[i].length, "case %zu: %zu, not %zu", i,
              srv_utf8_length(cases[i].bytes), cases[i].length);
}

static void json_is_spelled_so(void)
{
    static const char *const cases[][2] = {
        {"", "\"\""},
        {"plain/text", "\"plain/text\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
        {"h\xc3\xa9 \xf0\x9f\x99\x82", "\"h\xc3\xa9 \xf0\x9f\x99\x82\""},
        {"a\xff\xc3", "\"a\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82x", "\"\xef\xbf\xbd\xef\xbf\xbdx\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[64];
        srv_text text = srv_text_lend(buffer, sizeof buffer);
        srv_text_json(&text, cases[i][0]);
        CHECK(strcmp(buffer, cases[i][1]) == 0, "case %zu: %s, not %s", i, buffer, cases[i][1]);
    }
}

/* Whatever bytes go in, jansson reads the string; UTF-8 comes back as it was. */
static void json_is_read_by_others(void)
{
    srand(1);
    for (int round = 0; round < 5000; round++) {
        char string[24];
        int length = rand() % (int)sizeof string;
        bool valid = true;
        for (int i = 0; i < length; i++)
            string[i] = (char)(1 + rand() % (round % 2 ? 255 : 127));
        string[length] = '\0';
        for (size_t i = 0, step; valid && string[i]; i += step)
            valid = (step = srv_utf8_length(string + i)) > 0;
        srv_text text = SRV_TEXT_EMPTY;
        srv_text_json(&text, string);
        json_t *read = json_loads(text.data, JSON_DECODE_ANY, NULL);
        CHECK(json_is_string(read), "round %d: jansson refuses %s", round, text.data);
        CHECK(!valid || (read && strcmp(json_string_value(read), string) == 0),
              "round %d: %s reads back differently", round, text.data);
        json_decref(read);
        srv_text_free(&text);
    }
}

static void json_is_cut_between_characters(void)
{
    static const char string[] = "a\n\xc3\xa9\xe2\x82\xac\x01\xf0\x9f\x99\x82\xffz";
    enum {
        WHOLE = 1 + 2 + 2 + 3 + 6 + 4 + 3 + 1
    };
    for (size_t limit = 0; limit <= WHOLE + 1; limit++) {
        srv_text text = SRV_TEXT_EMPTY;
        srv_text_json_cut(&text, string, limit);
        bool cut = text.length >= 5 && strcmp(text.data + text.length - 4, "…\"") == 0;
        size_t content = text.length - 2 - (cut ? strlen("…") : 0);
        json_t *read = json_loads(text.data, JSON_DECODE_ANY, NULL);
        CHECK(read != NULL, "limit %zu: jansson refuses %s", limit, text.data);
        CHECK(content <= limit && content + 6 > (limit < WHOLE ? limit : WHOLE),
              "limit %zu: %zu bytes", limit, content);
        CHECK(cut == (limit < WHOLE), "limit %zu: %s", limit, text.data);
        json_decref(read);
        srv_text_free(&text);
    }
}

static void check_real(double value, const char *expected)
{
    char buffer[64];
    srv_text text = srv_text_lend(buffer, sizeof buffer);
    srv_text_real(&text, value);
    if (expected)
        CHECK(strcmp(buffer, expected) == 0, "%a prints as %s, not %s", value, buffer, expected);
    else
        CHECK(strtod(buffer, NULL) == value, "%a prints as %s", value, buffer);
    /* -d.<16 digits>e-ddd */
    CHECK(!text.failed && text.length <= 24, "%a takes %zu bytes", value, text.length);
}

static void reals_read_back(void)
{
    check_real(0, "0");
    check_real(-0.0, "-0");
    check_real(1, "1");
    check_real(0.1, "0.1");
    check_real(-2.5, "-2.5");
    check_real(0.1 + 0.2, "0.30000000000000004");
    check_real(1e300, "1e+300");
    check_real(5e-324, "4.94065645841247e-324");
    check_real(NAN, "null");
    check_real(INFINITY, "null");
    check_real(-INFINITY, "null");
    srand(2);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = 0;
        for (int piece = 0; piece < 5; piece++)
            bits = bits << 15 ^ (uint64_t)rand();
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            check_real(value, NULL);
    }
}

static void figures_have_six_digits(void)
{
    static const struct {
        double value;
        const char *expected;
    } list[] = {{0, "0"},          {0.1 + 0.2, "0.3"},         {0.123456789, "0.123457"},
                {1e-9, "1e-09"},   {123456789, "1.23457e+08"}, {NAN, "null"},
                {INFINITY, "null"}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char buffer[64];
        srv_text text = srv_text_lend(buffer, sizeof buffer);
        srv_text_figure(&text, list[i].value);
        CHECK(strcmp(buffer, list[i].expected) == 0, "%a prints as %s, not %s", list[i].value,
              buffer, list[i].expected);
    }
}

static void integers_are_whole(void)
{
    char buffer[64];
    srv_text text = srv_text_lend(buffer, sizeof buffer);
    srv_text_int(&text, INT64_MIN);
    srv_text_string(&text, " ");
    srv_text_int(&text, INT64_MAX);
    CHECK(strcmp(buffer, "-9223372036854775808 9223372036854775807") == 0, "got %s", buffer);
}

/* Under a locale whose decimal point is a comma, made for the occasion. */
static void reals_ignore_the_locale(void)
{
    char folder[] = "/tmp/attnd_locale_XXXXXX", command[200];
    CHECK(mkdtemp(folder) != NULL, "no temporary folder");
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/comma >%s/log 2>&1", folder,
             folder);
    bool made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    if (made && setlocale(LC_NUMERIC, "comma")) {
        char plain[16], buffer[64];
        snprintf(plain, sizeof plain, "%.1f", 0.5);
        CHECK(strcmp(plain, "0,5") == 0, "the locale has no comma: %s", plain);
        srv_text text = srv_text_lend(buffer, sizeof buffer);
        srv_text_real(&text, 1234567.25);
        srv_text_string(&text, " ");
        srv_text_real(&text, -1.5e-9);
        srv_text_string(&text, " ");
        srv_text_real(&text, 0.1 + 0.2);
        CHECK(strcmp(buffer, "1234567.25 -1.5e-09 0.30000000000000004") == 0, "got %s", buffer);
    } else
        puts("SKIP reals_ignore_the_locale: localedef made no locale with a comma");
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0, "%s", command);
}

static const test_case cases[] = {
    {"grows", grows},
    {"releases an empty string", releases_an_empty_string},
    {"failure sticks", failure_sticks},
    {"lent text stays inside", lent_text_stays_inside},
    {"utf-8 is strict", utf8_is_strict},
    {"json is spelled so", json_is_spelled_so},
    {"json is read by others", json_is_read_by_others},
    {"json is cut between characters", json_is_cut_between_characters},
    {"reals read back", reals_read_back},
    {"figures have six digits", figures_have_six_digits},
    {"integers are whole", integers_are_whole},
    {"reals ignore the locale", reals_ignore_the_locale},
    {NULL, NULL},
};

int main(void)
{
    return test_main("text", cases);
}
