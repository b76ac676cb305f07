/* A CUnit program in one line: cases in a table, a count that the runner can add up. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <CUnit/CUnit.h>

typedef struct test_case {
    const char *name;
    void (*run)(void);
} test_case;

/* Run the cases (the last has a NULL name), print "<suite>: N passed, N failed", and return what
 * main should return. */
int test_main(const char *suite, const test_case *cases);

/* A check that says what was wrong: prints the message when `ok` is false, and counts. */
void test_check(int ok, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define CHECK(ok, ...) test_check(ok, __FILE__, __LINE__, __VA_ARGS__)

#endif
