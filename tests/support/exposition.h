/* A strict reader of the Prometheus text format 0.0.4. It finds what `promtool check metrics` lets
 * pass: series that come twice, split families, histograms that do not add up, falling below 0. */
#ifndef TESTS_EXPOSITION_H
#define TESTS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

/* NULL when `text` is faultless, else what is wrong in line *line (from 1). */
const char *exposition_fault(const char *text, int *line);

/* The value of the sample that is spelled exactly `series`, as in `up` or `up{job="a"}`; NaN when
 * there is none. */
double exposition_value(const char *text, const char *series);

/* The number of samples whose line begins with `prefix`. */
int exposition_count(const char *text, const char *prefix);

#endif
