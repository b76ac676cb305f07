/* The metrics, judged by a strict reader of our own and by promtool where it is installed. */
#include "server/metrics.h"
#include "server/process_metrics.h"
#include "tests/support/exposition.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The text of a scrape, faultless, which the caller frees. */
static char *scrape(const srv_metrics *metrics)
{
    size_t length = 0;
    int line = 0;
    char *text = srv_metrics_print(metrics, &length);
    CHECK(text != NULL && strlen(text) == length, "length %zu", length);
    const char *fault = text ? exposition_fault(text, &line) : "no text";
    CHECK(!fault, "line %d: %s", line, fault ? fault : "");
    return text;
}

/* Let promtool read the text; it complains of anything by its exit status. */
static void check_with_promtool(const char *text)
{
    if (system("command -v promtool >/dev/null") != 0) {
        puts("SKIP promtool: not installed");
        return;
    }
    FILE *pipe = popen("promtool check metrics", "w");
    CHECK(pipe != NULL && fputs(text, pipe) >= 0, "cannot write to promtool");
    CHECK(pipe != NULL && pclose(pipe) == 0, "promtool does not like it");
}

static void check_value(const char *text, const char *series, double expected)
{
    double found = exposition_value(text, series);
    CHECK(found == expected, "%s is %g, not %g", series, found, expected);
}

static void fresh_scrape_is_complete(void)
{
    static const char *const names[] = {
#define FAMILY(kind, id, name, buckets, labels, help) "# TYPE " name " ",
#include "server/metrics.def"
    };
    static const char *const zeros[] = {
#define SERIES(id, value) value,
#include "server/metrics.def"
    };
    srv_metrics *metrics = srv_metrics_open();
    char *text = scrape(metrics);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(exposition_count(text, names[i]) == 1, "%s", names[i]);
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        char rejected[100], cancelled[100];
        snprintf(rejected, sizeof rejected, "attnd_requests_rejected_total{reason=\"%s\"}",
                 zeros[i]);
        snprintf(cancelled, sizeof cancelled, "attnd_requests_cancelled_total{stage=\"%s\"}",
                 zeros[i]);
        CHECK(exposition_value(text, rejected) == 0 || exposition_value(text, cancelled) == 0,
              "%s does not start at 0", zeros[i]);
    }
    check_value(text, "attnd_ready", 0);
    check_value(text, "attnd_http_requests_in_flight", 0);
    CHECK(exposition_count(text, "attnd_requests_rejected_total{") == 8, "reasons");
    CHECK(exposition_count(text, "attnd_requests_cancelled_total{") == 4, "stages");
    CHECK(exposition_count(text, "attnd_http_requests_total") == 0, "a series nobody made");
    CHECK(exposition_count(text, "attnd_request_parse_seconds") == 0, "a series nobody made");
    check_with_promtool(text);
    free(text);
    srv_metrics_close(metrics);
}

static void counters_never_fall(void)
{
    const char *const *labels = SRV_LABELS("/v1/attend", "POST", "200");
    srv_metrics *metrics = srv_metrics_open();
    const double amounts[] = {1, 2, -1, NAN, INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        srv_metrics_add(metrics, SRV_METRIC_HTTP_REQUESTS, amounts[i], labels);
    const double readings[] = {5, 7, 6, NAN, -8};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        srv_metrics_set(metrics, SRV_METRIC_PROCESS_CPU_SECONDS, readings[i], NULL);
    char *text = scrape(metrics);
    check_value(text,
                "attnd_http_requests_total{route=\"/v1/attend\",method=\"POST\",code=\"200\"}", 3);
    check_value(text, "process_cpu_seconds_total", 7);
    free(text);
    srv_metrics_close(metrics);
}

static void gauges_go_both_ways(void)
{
    srv_metrics *metrics = srv_metrics_open();
    srv_metrics_add(metrics, SRV_METRIC_HTTP_CONNECTIONS, 3, NULL);
    srv_metrics_add(metrics, SRV_METRIC_HTTP_CONNECTIONS, -1, NULL);
    srv_metrics_set(metrics, SRV_METRIC_QUEUE_COST, 0.1, NULL);
    srv_metrics_set(metrics, SRV_METRIC_QUEUE_COST, NAN, NULL);
    srv_metrics_set(metrics, SRV_METRIC_MEMORY_LIMIT, 1e15, NULL);
    srv_metrics_set(metrics, SRV_METRIC_QUEUE_DEPTH, -1e308, NULL);
    srv_metrics_add(metrics, SRV_METRIC_QUEUE_DEPTH, -1e308, NULL);
    char *text = scrape(metrics);
    check_value(text, "attnd_http_connections", 2);
    check_value(text, "attnd_queue_depth", -1e308);
    CHECK(strstr(text, "\nattnd_queue_cost_seconds 0.1\n") != NULL, "a real");
    CHECK(strstr(text, "\nattnd_memory_limit_bytes 1000000000000000\n") != NULL,
          "a whole number has no exponent");
    free(text);
    srv_metrics_close(metrics);
}

static void gauges_can_be_forgotten(void)
{
    srv_metrics *metrics = srv_metrics_open();
    for (int round = 0; round < 3; round++) {
        srv_metrics_clear(metrics, SRV_METRIC_MODEL_BYTES);
        srv_metrics_set(metrics, SRV_METRIC_MODEL_BYTES, 2, SRV_LABELS("kept"));
        srv_metrics_set(metrics, SRV_METRIC_MODEL_LOADED, 1, SRV_LABELS("kept"));
        if (round == 0)
            srv_metrics_set(metrics, SRV_METRIC_MODEL_BYTES, 3, SRV_LABELS("gone"));
    }
    char *text = scrape(metrics);
    check_value(text, "attnd_model_bytes{model=\"kept\"}", 2);
    check_value(text, "attnd_model_loaded{model=\"kept\"}", 1);
    CHECK(strstr(text, "gone") == NULL, "%s", text);
    free(text);
    srv_metrics_close(metrics);
}

static void histograms_add_up(void)
{
    srv_metrics *metrics = srv_metrics_open();
    const double lengths[] = {0,       1,       16,  17, 4095, 4096,    4097,
                              1048576, 1048577, 1e9, -1, NAN,  INFINITY};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        srv_metrics_observe(metrics, SRV_METRIC_REQUEST_SEQUENCE_LENGTH, lengths[i],
                            SRV_LABELS("exact"));
    srv_metrics_observe(metrics, SRV_METRIC_REQUEST_SEQUENCE_LENGTH, 64, SRV_LABELS("window"));
    char *text = scrape(metrics);
#define NAME "attnd_request_sequence_length"
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"16\"}", 3);
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"32\"}", 4);
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"2048\"}", 4);
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"4096\"}", 6);
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"8192\"}", 7);
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"1048576\"}", 8);
    check_value(text, NAME "_bucket{backend=\"exact\",le=\"+Inf\"}", 10);
    check_value(text, NAME "_count{backend=\"exact\"}", 10);
    double sum = 0 + 1 + 16 + 17 + 4095 + 4096 + 4097 + 1048576 + 1048577 + 1e9;
    check_value(text, NAME "_sum{backend=\"exact\"}", sum);
    check_value(text, NAME "_count{backend=\"window\"}", 1);
#undef NAME
    srv_metrics_observe(metrics, SRV_METRIC_REQUEST_PARSE, 0.00025, SRV_LABELS("json"));
    free(text);
    text = scrape(metrics);
    check_value(text, "attnd_request_parse_seconds_bucket{encoding=\"json\",le=\"0.0001\"}", 0);
    check_value(text, "attnd_request_parse_seconds_bucket{encoding=\"json\",le=\"0.00025\"}", 1);
    check_value(text, "attnd_request_parse_seconds_sum{encoding=\"json\"}", 0.00025);
    check_with_promtool(text);
    free(text);
    srv_metrics_close(metrics);
}

static void labels_are_told_apart_and_escaped(void)
{
    srv_metrics *metrics = srv_metrics_open();
    char longest[SRV_METRIC_LABEL_BYTES + 1], too_long[SRV_METRIC_LABEL_BYTES + 2];
    memset(longest, 'x', sizeof longest - 1);
    memset(too_long, 'x', sizeof too_long - 1);
    longest[sizeof longest - 1] = too_long[sizeof too_long - 1] = '\0';
    const struct {
        const char *backend, *rule, *printed;
    } cases[] = {
        {"a", "bc", "{backend=\"a\",rule=\"bc\"}"},
        {"ab", "c", "{backend=\"ab\",rule=\"c\"}"},
        {"", "", "{backend=\"\",rule=\"\"}"},
        {"q\"b\\s", "line\nend", "{backend=\"q\\\"b\\\\s\",rule=\"line\\nend\"}"},
        {"a,b", "{}", "{backend=\"a,b\",rule=\"{}\"}"},
        {"\xc3\xa9", "\x01", "{backend=\"\xc3\xa9\",rule=\"\x01\"}"},
        {"\xff", "\xc3", "{backend=\"other\",rule=\"other\"}"},
        {too_long, NULL, "{backend=\"other\",rule=\"other\"}"},
        {NULL, "hidden", "{backend=\"other\",rule=\"other\"}"},
        {"other", "other", "{backend=\"other\",rule=\"other\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *labels[] = {cases[i].backend, cases[i].rule};
        srv_metrics_add(metrics, SRV_METRIC_ROUTE, 1, labels);
    }
    srv_metrics_add(metrics, SRV_METRIC_ROUTE, 1, NULL);
    srv_metrics_add(metrics, SRV_METRIC_ROUTE, 1, SRV_LABELS(longest, "r"));
    char *text = scrape(metrics), series[400];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *printed = cases[i].printed;
        snprintf(series, sizeof series, "attnd_route_total%s", printed);
        check_value(text, series, strstr(printed, "\"other\"") ? 5 : 1);
    }
    snprintf(series, sizeof series, "attnd_route_total{backend=\"%s\",rule=\"r\"}", longest);
    check_value(text, series, 1);
    CHECK(exposition_count(text, "attnd_route_total{") == 8, "%d series",
          exposition_count(text, "attnd_route_total{"));
    check_with_promtool(text);
    free(text);
    srv_metrics_close(metrics);
}

static void flood_of_labels_is_bounded(void)
{
    enum {
        FLOOD = 5000
    };
    srv_metrics *metrics = srv_metrics_open();
    for (int i = 0; i < FLOOD; i++) {
        char method[20];
        snprintf(method, sizeof method, "M%d", i);
        srv_metrics_add(metrics, SRV_METRIC_HTTP_REQUESTS, 1, SRV_LABELS("/", method, "405"));
    }
    srv_metrics_add(metrics, SRV_METRIC_HTTP_REQUESTS, 1, SRV_LABELS("/", "M0", "405"));
    srv_metrics_add(metrics, SRV_METRIC_HTTP_REQUESTS, 1, SRV_LABELS("/", "M4999", "405"));
    char *text = scrape(metrics);
    CHECK(exposition_count(text, "attnd_http_requests_total{") == SRV_METRIC_MAX_SERIES,
          "%d series", exposition_count(text, "attnd_http_requests_total{"));
    check_value(text, "attnd_http_requests_total{route=\"/\",method=\"M0\",code=\"405\"}", 2);
    check_value(text, "attnd_http_requests_total{route=\"other\",method=\"other\",code=\"other\"}",
                FLOOD - (SRV_METRIC_MAX_SERIES - 1) + 1);
    free(text);
    srv_metrics_close(metrics);
}

static void scraping_changes_nothing(void)
{
    srv_metrics *metrics = srv_metrics_open();
    srv_metrics_observe(metrics, SRV_METRIC_REQUEST_QUEUE, 0.003, SRV_LABELS("exact"));
    char *first = scrape(metrics), *second = scrape(metrics);
    CHECK(strcmp(first, second) == 0, "two scrapes differ");
    free(first);
    free(second);
    srv_metrics_close(metrics);
}

static void process_is_measured(void)
{
    srv_metrics *metrics = srv_metrics_open();
    srv_process_metrics_update(metrics);
    char *text = scrape(metrics);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    check_value(text, "process_max_fds", (double)files.rlim_cur);
    double open_fds = exposition_value(text, "process_open_fds");
    double resident = exposition_value(text, "process_resident_memory_bytes");
    double virtual_bytes = exposition_value(text, "process_virtual_memory_bytes");
    double age = (double)time(NULL) - exposition_value(text, "process_start_time_seconds");
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    CHECK(open_fds >= 3, "%g open descriptors", open_fds);
    CHECK(resident >= 65536 && resident <= (double)usage.ru_maxrss * 1024 * 1.1 + 1e6,
          "%g resident bytes, never more than %ld KiB", resident, usage.ru_maxrss);
    CHECK(virtual_bytes >= resident, "%g virtual bytes, %g resident", virtual_bytes, resident);
    CHECK(age > -2 && age < 600, "started %g s ago", age);
    free(text);

    int fd = open("/dev/null", O_RDONLY);
    for (double end = (double)clock() + CLOCKS_PER_SEC / 20; (double)clock() < end;)
        ;
    srv_process_metrics_update(metrics);
    text = scrape(metrics);
    check_value(text, "process_open_fds", open_fds + 1);
    double cpu = exposition_value(text, "process_cpu_seconds_total");
    double used = (double)clock() / CLOCKS_PER_SEC;
    CHECK(cpu >= 0.03 && cpu <= used + 0.03, "%g s of CPU time, not %g", cpu, used);
    check_with_promtool(text);
    free(text);
    close(fd);
    srv_metrics_close(metrics);
}

static void anything_goes(void)
{
    static const char *const words[] = {"exact", "", "\"", "\\", "\n", "a\\n", "\xff", "é", NULL};
    static const struct {
        srv_metric id;
        bool observed;
    } families[] = {
#define COUNTER                                       false
#define GAUGE                                         false
#define HISTOGRAM                                     true
#define FAMILY(kind, id, name, buckets, labels, help) {SRV_METRIC_##id, kind},
#include "server/metrics.def"
    };
    srv_metrics *metrics = srv_metrics_open();
    srand(4);
    for (int i = 0; i < 20000; i++) {
        const char *labels[SRV_METRIC_MAX_LABELS];
        for (int j = 0; j < SRV_METRIC_MAX_LABELS; j++)
            labels[j] = words[rand() % (int)(sizeof words / sizeof *words)];
        size_t family = (size_t)rand() % SRV_METRIC_COUNT;
        double value = ldexp(rand() % 1000 - 100, rand() % 60 - 30);
        if (families[family].observed)
            srv_metrics_observe(metrics, families[family].id, value, labels);
        else if (rand() % 2)
            srv_metrics_add(metrics, families[family].id, value, labels);
        else
            srv_metrics_set(metrics, families[family].id, value, labels);
    }
    char *text = scrape(metrics);
    check_with_promtool(text);
    free(text);
    srv_metrics_close(metrics);
}

/* The reader must see what it is there to see. */
static void reader_finds_faults(void)
{
#define HEAD(name, kind) "# HELP " name " It counts.\n# TYPE " name " " kind "\n"
#define H                HEAD("h", "histogram")
    static const char *const faulty[] = {
        HEAD("a", "gauge") "a 1",
        HEAD("a", "gauge") "a 1\n\n",
        HEAD("a", "gauge") "a NaN\n",
        HEAD("a", "gauge") "a +Inf\n",
        HEAD("a", "gauge") "a 1x\n",
        HEAD("a", "gauge") "a\n",
        HEAD("a", "gauge") "a 1\na 1\n",
        HEAD("a", "gauge") "a{l=\"x\"} 1\na{l=\"x\"} 2\n",
        HEAD("a", "gauge") "a{l=\"x} 1\n",
        HEAD("a", "gauge") "a{l=\"\\x\"} 1\n",
        HEAD("a", "gauge") "a{l=\"x\"y\"} 1\n",
        HEAD("a", "gauge") "a{l=\"\xff\"} 1\n",
        HEAD("a", "gauge") "a{} 1\n",
        HEAD("a", "gauge") "b 1\n",
        HEAD("a", "gauge") "a_sum 1\n",
        HEAD("a", "gauge") HEAD("b", "gauge") "a 1\n",
        HEAD("a", "gauge") "a 1\n" HEAD("b", "gauge") HEAD("a", "gauge"),
        HEAD("a", "counter") "a -1\n",
        HEAD("a", "thing") "a 1\n",
        "a 1\n",
        "# HELP a It counts.\na 1\n",
        "# TYPE a gauge\na 1\n",
        H "h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
        H "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
        H "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n",
        H
        "h_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
        H "h_bucket{le=\"+Inf\"} 1\nh_count 1\n",
        H "h_bucket{le=\"+Inf\"} 1\nh_sum 1\n",
        H "h_bucket{le=\"+Inf\"} 1\nh_sum 1\n" HEAD("a", "gauge") "a 1\n",
        H "h_bucket{l=\"x\",le=\"1\"} 1\nh_bucket{l=\"y\",le=\"+Inf\"} 1\nh_sum{l=\"y\"} 1\n"
          "h_count{l=\"y\"} 1\n",
        H "h_bucket{le=\"+Inf\"} 1\nh_sum{l=\"x\"} 1\nh_count 1\n",
        H "h 1\n",
    };
    int line;
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++)
        CHECK(exposition_fault(faulty[i], &line) != NULL, "text %zu passed:\n%s", i, faulty[i]);
    static const char good[] =
        HEAD("a", "gauge") "a{l=\"\\\\\\\"\\n,}\"} -1\na{l=\"\"} 2.5e-09\n" H
                           "h_bucket{l=\"x\",le=\"0.5\"} 1\nh_bucket{l=\"x\",le=\"+Inf\"} "
                           "3\nh_sum{l=\"x\"} 7\n"
                           "h_count{l=\"x\"} 3\n" HEAD("b", "counter");
    const char *fault = exposition_fault(good, &line);
    CHECK(!fault, "line %d: %s", line, fault ? fault : "");
}

static const test_case cases[] = {
    {"fresh scrape is complete", fresh_scrape_is_complete},
    {"counters never fall", counters_never_fall},
    {"gauges go both ways", gauges_go_both_ways},
    {"gauges can be forgotten", gauges_can_be_forgotten},
    {"histograms add up", histograms_add_up},
    {"labels are told apart and escaped", labels_are_told_apart_and_escaped},
    {"flood of labels is bounded", flood_of_labels_is_bounded},
    {"scraping changes nothing", scraping_changes_nothing},
    {"process is measured", process_is_measured},
    {"anything goes", anything_goes},
    {"reader finds faults", reader_finds_faults},
    {NULL, NULL},
};

int main(void)
{
    return test_main("metrics", cases);
}
