/* The table of metrics and its updates. A family has a few dozen series in practice, so a list that
 * is walked is quick enough, and it prints in a stable order. */
#include "server/metrics.h"
#include "server/metrics_family.h"
#include "server/text.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS(set, ...) static const double buckets_##set[] = {__VA_ARGS__};
#include "server/metrics.def"
static const double buckets_NONE[1];

#define NO_LABELS \
    {             \
        NULL      \
    }
#define LABELS(...) \
    {               \
        __VA_ARGS__ \
    }

const metric_family metric_families[SRV_METRIC_COUNT] = {
#define FAMILY(kind_, id, name_, set, labels_, help_)                                   \
    [SRV_METRIC_##id] = {                                                               \
        .kind = kind_,                                                                  \
        .name = name_,                                                                  \
        .help = help_,                                                                  \
        .labels = labels_,                                                              \
        .buckets = buckets_##set,                                                       \
        .bucket_count = kind_ == HISTOGRAM ? sizeof buckets_##set / sizeof(double) : 0, \
    },
#include "server/metrics.def"
};

static const char other[] = "other";

/* True for a value that may be kept as it is: short, and UTF-8, which Prometheus insists on. */
static bool is_label(const char *value)
{
    size_t length = 0;
    while (value[length] && length <= SRV_METRIC_LABEL_BYTES) {
        size_t step = srv_utf8_length(value + length);
        if (step == 0)
            return false;
        length += step;
    }
    return length <= SRV_METRIC_LABEL_BYTES;
}

/* The values to count under: `given` up to its NULL, and "other" where that will not do. */
static void choose_labels(const metric_family *family, const char *const *given,
                          const char *values[SRV_METRIC_MAX_LABELS])
{
    bool more = given != NULL;
    for (size_t i = 0; family->labels[i]; i++) {
        more = more && given[i];
        values[i] = more && is_label(given[i]) ? given[i] : other;
    }
}

static metric_series *find_series(const metric_family *family, const metric_list *list,
                                  const char *const *values)
{
    for (metric_series *series = list->first; series; series = series->next) {
        size_t i = 0;
        while (family->labels[i] && strcmp(series->labels[i], values[i]) == 0)
            i++;
        if (!family->labels[i])
            return series;
    }
    return NULL;
}

/* A new last series in one block, its label values behind the buckets; NULL when out of memory. */
static metric_series *add_series(const metric_family *family, metric_list *list,
                                 const char *const *values)
{
    size_t buckets = family->bucket_count ? family->bucket_count + 1 : 0;
    size_t bytes = sizeof(metric_series) + buckets * sizeof(uint64_t);
    for (size_t i = 0; family->labels[i]; i++)
        bytes += strlen(values[i]) + 1;
    metric_series *series = calloc(1, bytes);
    if (!series)
        return NULL;
    char *to = (char *)(series->buckets + buckets);
    for (size_t i = 0; family->labels[i]; i++) {
        series->labels[i] = to;
        to = stpcpy(to, values[i]) + 1;
    }
    if (list->last)
        list->last->next = series;
    else
        list->first = series;
    list->last = series;
    list->count++;
    return series;
}

/* The series of these labels, made on first use; NULL when out of memory. */
static metric_series *series_of(srv_metrics *metrics, srv_metric id, const char *const *labels)
{
    const metric_family *family = &metric_families[id];
    metric_list *list = &metrics->families[id];
    const char *values[SRV_METRIC_MAX_LABELS];
    choose_labels(family, labels, values);
    metric_series *series = find_series(family, list, values);
    if (series || list->count < SRV_METRIC_MAX_SERIES - 1)
        return series ? series : add_series(family, list, values);
    choose_labels(family, NULL, values);
    series = find_series(family, list, values);
    return series ? series : add_series(family, list, values);
}

srv_metrics *srv_metrics_open(void)
{
    srv_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return NULL;
    bool complete = true;
    for (srv_metric id = 0; id < SRV_METRIC_COUNT; id++)
        if (!metric_families[id].labels[0])
            complete = series_of(metrics, id, NULL) && complete;
#define SERIES(id, value) \
    complete = series_of(metrics, SRV_METRIC_##id, SRV_LABELS(value)) && complete;
#include "server/metrics.def"
    if (complete)
        return metrics;
    srv_metrics_close(metrics);
    return NULL;
}

static void free_series(metric_list *list)
{
    for (metric_series *series = list->first, *next; series; series = next) {
        next = series->next;
        free(series);
    }
    *list = (metric_list){0};
}

void srv_metrics_close(srv_metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t id = 0; id < SRV_METRIC_COUNT; id++)
        free_series(&metrics->families[id]);
    free(metrics);
}

void srv_metrics_clear(srv_metrics *metrics, srv_metric id)
{
    assert(metric_families[id].kind == GAUGE);
    free_series(&metrics->families[id]);
}

void srv_metrics_add(srv_metrics *metrics, srv_metric id, double amount, const char *const *labels)
{
    metric_kind kind = metric_families[id].kind;
    assert(kind == COUNTER || kind == GAUGE);
    if (!isfinite(amount) || (kind == COUNTER && amount < 0))
        return;
    metric_series *series = series_of(metrics, id, labels);
    if (series && isfinite(series->value + amount))
        series->value += amount;
}

void srv_metrics_set(srv_metrics *metrics, srv_metric id, double value, const char *const *labels)
{
    metric_kind kind = metric_families[id].kind;
    assert(kind == COUNTER || kind == GAUGE);
    if (!isfinite(value))
        return;
    metric_series *series = series_of(metrics, id, labels);
    if (series && (kind == GAUGE || value > series->value))
        series->value = value;
}

void srv_metrics_observe(srv_metrics *metrics, srv_metric id, double value,
                         const char *const *labels)
{
    const metric_family *family = &metric_families[id];
    assert(family->kind == HISTOGRAM);
    if (!isfinite(value) || value < 0)
        return;
    metric_series *series = series_of(metrics, id, labels);
    if (!series || !isfinite(series->value + value))
        return;
    size_t bucket = 0;
    while (bucket < family->bucket_count && value > family->buckets[bucket])
        bucket++;
    series->buckets[bucket]++;
    series->value += value;
}
