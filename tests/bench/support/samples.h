/* Repeated measurements and what is said of them. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

enum {
    BENCH_REPETITIONS = 9 /* odd, so that the median is one of them */
};

typedef struct bench_samples {
    double value[BENCH_REPETITIONS];
} bench_samples;

typedef struct bench_summary {
    double median, min, max;
} bench_summary;

bench_summary bench_summarize(const bench_samples *samples);

/* Quotients of repetitions that ran next to each other: what slows the machine down for a while
 * slows both. */
bench_samples bench_ratios(const bench_samples *of, const bench_samples *to);

/* CLOCK_MONOTONIC. */
double bench_now_ns(void);

#endif
