/* Repeated measurements and what is said of them. */
#ifndef SERVER_BENCH_SAMPLES_H
#define SERVER_BENCH_SAMPLES_H

enum {
    SRV_BENCH_MOST_REPETITIONS = 99
};

typedef struct srv_bench_samples {
    int count;
    double value[SRV_BENCH_MOST_REPETITIONS];
} srv_bench_samples;

typedef struct srv_bench_summary {
    double median, min, max; /* NaN of no samples */
} srv_bench_summary;

/* Append one; does nothing when full. */
void srv_bench_sample(srv_bench_samples *samples, double value);

srv_bench_summary srv_bench_summarize(const srv_bench_samples *samples);

/* Median quotient of repetitions that ran next to each other: what slows the machine down for a
 * while slows both. */
double srv_bench_ratio(const srv_bench_samples *of, const srv_bench_samples *to);

#endif
