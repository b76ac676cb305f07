/* The six process_* metrics that every Prometheus client library has, read from /proc. */
#ifndef SERVER_PROCESS_METRICS_H
#define SERVER_PROCESS_METRICS_H

#include "server/metrics.h"

/* Bring the process_* metrics up to date, before a print. What /proc does not tell (no file
 * descriptor left to open it with, for one) keeps its last value. */
void srv_process_metrics_update(srv_metrics *metrics);

#endif
