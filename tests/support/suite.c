#include "tests/support/suite.h"

#include <CUnit/Basic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int test_main(const char *name, const test_case *cases)
{
    if (CU_initialize_registry() != CUE_SUCCESS)
        return EXIT_FAILURE;
    CU_pSuite suite = CU_add_suite(name, NULL, NULL);
    for (const test_case *c = cases; c->name; c++)
        if (!CU_add_test(suite, c->name, c->run))
            return EXIT_FAILURE;
    CU_basic_set_mode(CU_BRM_SILENT);
    CU_basic_run_tests();
    unsigned failed = CU_get_number_of_tests_failed();
    if (failed) {
        CU_basic_show_failures(CU_get_failure_list());
        printf("\n");
    }
    printf("%s: %u passed, %u failed\n", name, CU_get_number_of_tests_run() - failed, failed);
    CU_cleanup_registry();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

void test_check(int ok, const char *file, int line, const char *format, ...)
{
    if (!ok) {
        va_list args;
        va_start(args, format);
        printf("%s:%d: ", file, line);
        vprintf(format, args);
        printf("\n");
        va_end(args);
    }
    CU_assertImplementation(ok ? CU_TRUE : CU_FALSE, (unsigned)line, format, file, "", CU_FALSE);
}
