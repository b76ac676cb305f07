/* What attnd counts about itself, in the Prometheus model: families of series told apart by labels.
 *
 * Everything here is updated and printed on the loop thread, so there are no locks and no atomics.
 * main owns the one srv_metrics and passes it down. A series appears when its label values are
 * first used. Each family keeps at most SRV_METRIC_MAX_SERIES of them, whatever clients send: once
 * it is full, and for a value that is missing, longer than SRV_METRIC_LABEL_BYTES or not UTF-8, the
 * value "other" is counted instead. An update that finds no memory, or is not a finite number, is
 * dropped. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stddef.h>

enum {
    SRV_METRIC_MAX_SERIES = 256,
    SRV_METRIC_MAX_LABELS = 4,
    SRV_METRIC_LABEL_BYTES = 128,
};

typedef enum srv_metric {
#define FAMILY(kind, id, name, buckets, labels, help) SRV_METRIC_##id,
#include "server/metrics.def"
    SRV_METRIC_COUNT
} srv_metric;

typedef struct srv_metrics srv_metrics;

/* Label values in the order of metrics.def: SRV_LABELS(route, "POST", "200"). The values are
 * copied; NULL instead of the whole list for a family without labels. */
#define SRV_LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* All families, at 0; NULL when out of memory. */
srv_metrics *srv_metrics_open(void);
void srv_metrics_close(srv_metrics *metrics);

/* Add to a counter (never a negative amount: it is dropped) or to a gauge. */
void srv_metrics_add(srv_metrics *metrics, srv_metric id, double amount, const char *const *labels);

/* Set a gauge, or a counter that is counted elsewhere; a counter never falls. */
void srv_metrics_set(srv_metrics *metrics, srv_metric id, double value, const char *const *labels);

/* Forget the series of a family of gauges: what is not set again is gone. */
void srv_metrics_clear(srv_metrics *metrics, srv_metric id);

/* Count a value, which is not negative, in a histogram. */
void srv_metrics_observe(srv_metrics *metrics, srv_metric id, double value,
                         const char *const *labels);

/* What srv_metrics_print's text is, for the Content-Type header. */
#define SRV_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* All families as text, *length bytes and a NUL, which the caller frees; NULL when out of memory.
 * Call srv_process_metrics_update first for fresh process_* values. */
char *srv_metrics_print(const srv_metrics *metrics, size_t *length);

#endif
