/* The Prometheus text format, version 0.0.4: each family once, HELP and TYPE first, then its
 * series. A family that has no series yet still says that it exists. */
#include "server/metrics_family.h"
#include "server/text.h"

#include <math.h>

/* A finite value; whole numbers without an exponent, as people expect of counters. */
static void add_value(srv_text *text, double value)
{
    if (value == floor(value) && fabs(value) < 0x1p53)
        srv_text_int(text, (int64_t)value);
    else
        srv_text_real(text, value);
}

static void add_escaped(srv_text *text, const char *value)
{
    for (; *value; value++) {
        if (*value == '\n')
            srv_text_string(text, "\\n");
        else if (*value == '\\' || *value == '"')
            srv_text_format(text, "\\%c", *value);
        else
            srv_text_add(text, value, 1);
    }
}

/* The labels of a series without braces; returns what must come before one more label. */
static const char *add_labels(srv_text *text, const metric_family *family,
                              const metric_series *series)
{
    const char *comma = "";
    for (size_t i = 0; family->labels[i]; i++, comma = ",") {
        srv_text_format(text, "%s%s=\"", comma, family->labels[i]);
        add_escaped(text, series->labels[i]);
        srv_text_string(text, "\"");
    }
    return comma;
}

/* One line: name, suffix, the labels of the series, the value. */
static void add_sample(srv_text *text, const metric_family *family, const char *suffix,
                       const metric_series *series, double value)
{
    bool labelled = family->labels[0] != NULL;
    srv_text_format(text, "%s%s%s", family->name, suffix, labelled ? "{" : "");
    add_labels(text, family, series);
    srv_text_string(text, labelled ? "} " : " ");
    add_value(text, value);
    srv_text_string(text, "\n");
}

/* The buckets below and including each bound, then sum and count. */
static void add_histogram(srv_text *text, const metric_family *family, const metric_series *series)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= family->bucket_count; i++) {
        count += series->buckets[i];
        srv_text_format(text, "%s_bucket{", family->name);
        srv_text_format(text, "%sle=\"", add_labels(text, family, series));
        if (i < family->bucket_count)
            add_value(text, family->buckets[i]);
        else
            srv_text_string(text, "+Inf");
        srv_text_string(text, "\"} ");
        add_value(text, (double)count);
        srv_text_string(text, "\n");
    }
    add_sample(text, family, "_sum", series, series->value);
    add_sample(text, family, "_count", series, (double)count);
}

char *srv_metrics_print(const srv_metrics *metrics, size_t *length)
{
    static const char *const kind_names[] = {"counter", "gauge", "histogram"};
    srv_text text = SRV_TEXT_EMPTY;
    for (size_t id = 0; id < SRV_METRIC_COUNT; id++) {
        const metric_family *family = &metric_families[id];
        srv_text_format(&text, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                        family->name, kind_names[family->kind]);
        for (const metric_series *series = metrics->families[id].first; series;
             series = series->next) {
            if (family->kind == HISTOGRAM)
                add_histogram(&text, family, series);
            else
                add_sample(&text, family, "", series, series->value);
        }
    }
    return srv_text_release(&text, length);
}
