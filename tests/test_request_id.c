/* Request ids and traceparent headers, good and bad. */
#include "server/request_id.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void good_ids_are_taken_over(void)
{
    char longest[SRV_REQUEST_ID_MAX + 1];
    memset(longest, 'x', SRV_REQUEST_ID_MAX);
    longest[SRV_REQUEST_ID_MAX] = '\0';
    const char *const good[] = {"a", "0", "-", "..", "Zz09._-", longest};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        srv_request_id id;
        srv_request_id_set(&id, good[i]);
        CHECK(strcmp(id.text, good[i]) == 0, "%s became %s", good[i], id.text);
    }
}

static void bad_ids_are_replaced(void)
{
    char too_long[SRV_REQUEST_ID_MAX + 2];
    memset(too_long, 'x', SRV_REQUEST_ID_MAX + 1);
    too_long[SRV_REQUEST_ID_MAX + 1] = '\0';
    const char *const bad[] = {NULL,       "",      " ",       "a b", "a ",  "a\n",   "a\r\nX: y",
                               "\xc3\xa9", "a\x7f", "{\"a\":", "a,b", "a/b", too_long};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        srv_request_id id;
        srv_request_id_set(&id, bad[i]);
        CHECK(strlen(id.text) == 32 && strspn(id.text, "0123456789abcdef") == 32,
              "case %zu became %s", i, id.text);
    }
}

static void fresh_ids_differ(void)
{
    enum {
        COUNT = 1000
    };
    static srv_request_id ids[COUNT];
    for (int i = 0; i < COUNT; i++)
        srv_request_id_set(&ids[i], NULL);
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            CHECK(strcmp(ids[i].text, ids[j].text) != 0, "%d and %d are %s", i, j, ids[i].text);
}

enum {
    THREADS = 4,
    EACH = 5000
};

static void *make_unique(void *to)
{
    for (unsigned char(*bytes)[SRV_UNIQUE_BYTES] = to, (*end)[SRV_UNIQUE_BYTES] = bytes + EACH;
         bytes < end; bytes++)
        srv_unique_bytes(*bytes);
    return NULL;
}

static int compare_unique(const void *a, const void *b)
{
    return memcmp(a, b, SRV_UNIQUE_BYTES);
}

static void fallback_never_repeats(void)
{
    static unsigned char all[THREADS * EACH][SRV_UNIQUE_BYTES];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, make_unique, all[i * EACH]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    qsort(all, THREADS * EACH, SRV_UNIQUE_BYTES, compare_unique);
    for (int i = 1; i < THREADS * EACH; i++)
        CHECK(memcmp(all[i - 1], all[i], SRV_UNIQUE_BYTES) != 0, "number %d comes twice", i);
}

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

static void good_traces_are_read(void)
{
    static const char *const good[] = {
        "00-" TRACE "-" PARENT "-01",
        "00-" TRACE "-" PARENT "-00",
        "00-" TRACE "-" PARENT "-ff",
        "01-" TRACE "-" PARENT "-01",
        "fe-" TRACE "-" PARENT "-01-what-the-future-will-be-like",
        "01-" TRACE "-" PARENT "-01-",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        srv_trace trace;
        CHECK(srv_trace_parse(&trace, good[i]), "%s was refused", good[i]);
        CHECK(strcmp(trace.trace_id, TRACE) == 0, "trace %s of %s", trace.trace_id, good[i]);
        CHECK(strcmp(trace.parent_id, PARENT) == 0, "parent %s of %s", trace.parent_id, good[i]);
    }
}

static void bad_traces_are_ignored(void)
{
    static const char *const bad[] = {
        NULL,
        "",
        "00",
        "ff-" TRACE "-" PARENT "-01", /* no such version */
        "0-" TRACE "-" PARENT "-01",
        "0g-" TRACE "-" PARENT "-01",
        "0F-" TRACE "-" PARENT "-01", /* upper case */
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-00000000000000000000000000000000-" PARENT "-01", /* zero ids */
        "00-" TRACE "-0000000000000000-01",
        "00-" TRACE "-" PARENT "-0", /* lengths */
        "00-" TRACE "-" PARENT "-",
        "00-" TRACE "-" PARENT,
        "00-" TRACE "-" PARENT "-011",
        "00-" TRACE "-" PARENT "-01-more", /* not in version 00 */
        "01-" TRACE "-" PARENT "-01more",
        "01-" TRACE "-" PARENT "-011",
        "00-" TRACE "0-" PARENT "-01",
        "00_" TRACE "-" PARENT "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" TRACE "-" PARENT "_01",
        "00-" TRACE "-" PARENT "-0x",
        "00-" TRACE "-" PARENT "-01 ",
        " 00-" TRACE "-" PARENT "-01",
        "00-4bf92f3577b34da6-a3ce929d0e0e473-" PARENT "-01",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        srv_trace trace;
        CHECK(!srv_trace_parse(&trace, bad[i]), "%s was accepted", bad[i]);
        CHECK(!trace.trace_id[0] && !trace.parent_id[0], "ids are left from %s", bad[i]);
    }
}

static const test_case cases[] = {
    {"good ids are taken over", good_ids_are_taken_over},
    {"bad ids are replaced", bad_ids_are_replaced},
    {"fresh ids differ", fresh_ids_differ},
    {"the fallback never repeats", fallback_never_repeats},
    {"good traces are read", good_traces_are_read},
    {"bad traces are ignored", bad_traces_are_ignored},
    {NULL, NULL},
};

int main(void)
{
    return test_main("request_id", cases);
}
