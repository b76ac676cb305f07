/* How families and series are kept; only metrics.c and metrics_print.c look inside. */
#ifndef SERVER_METRICS_FAMILY_H
#define SERVER_METRICS_FAMILY_H

#include "server/metrics.h"

#include <stdint.h>

typedef enum metric_kind {
    COUNTER,
    GAUGE,
    HISTOGRAM,
} metric_kind;

/* One line of metrics.def. */
typedef struct metric_family {
    metric_kind kind;
    const char *name, *help;
    const char *labels[SRV_METRIC_MAX_LABELS + 1]; /* NULL-terminated */
    const double *buckets;                         /* upper bounds, ascending, without +Inf */
    size_t bucket_count;                           /* 0 unless a histogram */
} metric_family;

extern const metric_family metric_families[SRV_METRIC_COUNT];

typedef struct metric_series metric_series;
struct metric_series {
    metric_series *next;                       /* in order of first use */
    const char *labels[SRV_METRIC_MAX_LABELS]; /* stored behind the buckets */
    double value;                              /* of a histogram, the sum */
    uint64_t buckets[]; /* a histogram's: bucket_count + 1, the last for +Inf, not cumulative */
};

typedef struct metric_list {
    metric_series *first, *last;
    size_t count;
} metric_list;

struct srv_metrics {
    metric_list families[SRV_METRIC_COUNT];
};

#endif
