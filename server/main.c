/* attnd: the command line, and the order in which the daemon's parts start and stop. */
#include "attn/blas.h"
#include "attn/mixer.h"
#include "attn/route.h"
#include "server/attend/source.h"
#include "server/bench/bench.h"
#include "server/cost/calibration.h"
#include "server/cost/command.h"
#include "server/healthcheck.h"
#include "server/init_model/init_model.h"
#include "server/listen.h"
#include "server/loop.h"
#include "server/models/registry.h"
#include "server/version.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_USAGE = 2 /* the command line or configuration is wrong */
};

static void print_help(FILE *out)
{
    fputs("attnd serves attention over HTTP.\n"
          "\n"
          "usage: attnd serve [--flag value]...   serve until SIGTERM or SIGINT\n"
          "       attnd bench [--flag value]...   time the backends on this machine; bench --help\n"
          "       attnd init-model DIR            write a model of random weights; init-model "
          "--help\n"
          "       attnd calibrate [--out FILE]    measure what predictions are made of\n"
          "       attnd healthcheck URL           0 when the URL answers 2xx, else 1\n"
          "       attnd version                   say what this is\n"
          "       attnd --help                    this text\n"
          "\n"
          "flags of serve, with [defaults]; each is also an environment variable\n"
          "(--max-body-bytes is ATTND_MAX_BODY_BYTES) and a key of the configuration file:\n",
          out);
    srv_config_help(out);
    fputs("\nand of the command line alone (ATTND_CONFIG names a file too):\n"
          "  --config               JSON file with any of these keys, dashes written _ [none]\n"
          "  --check-config         only check the configuration\n"
          "  --print-config         only print the configuration in force\n"
          "\n"
          "backends:\n",
          out);
    for (const attn_mixer *const *m = attn_mixers; *m; m++)
        fprintf(out, "  %-22s %s\n", (*m)->name, (*m)->summary);
    fputs("  mamba, hybrid          of loaded models only\n", out);
    fputs("\n"
          "try:  attnd serve &\n"
          "      curl -H 'Content-Type: application/json' 127.0.0.1:8080/v1/attend \\\n"
          "           -d '{\"q\": [[1, 0]], \"k\": [[1, 0], [0, 1]], \"v\": [[1], [2]]}'\n",
          out);
}

static int complain(const attn_error *error)
{
    fprintf(stderr, "attnd: %s\n", error->message);
    return error->status == ATTN_INVALID ? EXIT_USAGE : EXIT_FAILURE;
}

/* Large blocks are mapped and so go back to the system when freed; left alone, glibc raises this
 * threshold with each one it frees and keeps them. */
static void keep_heap_small(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

static attn_status start(srv_server *server, attn_error *error)
{
    attn_status status = attn_machine_probe(&server->machine, server->config.isa, error);
    if (status != ATTN_OK)
        return status;
    int64_t wanted = server->config.workers ? server->config.workers : server->machine.cores;
    server->workers = (int)(wanted < SRV_MAX_WORKERS ? wanted : SRV_MAX_WORKERS);
    int64_t limit = server->config.memory_limit_bytes;
    server->budget.limit = limit ? (size_t)limit : server->machine.memory_bytes / 4 * 3;
    attn_blas_init();
    server->metrics = srv_metrics_open();
    if (!server->metrics)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for the metrics");
    server->executor = srv_executor_open(server->workers, error);
    if (!server->executor)
        return error->status;
    srv_cost_init(&server->cost);
    status = srv_cost_open(&server->cost, &server->machine, server->executor, server->workers,
                           server->config.calibration_file, &server->log, error);
    if (status != ATTN_OK)
        return status;
    const srv_config *config = &server->config;
    server->registry = srv_registry_open(config->model_dir, srv_config_is_explicit(config),
                                         server->executor, &server->log, error);
    return server->registry ? srv_loop_open(server, error) : error->status;
}

static void announce(srv_server *server)
{
    srv_metrics_set(server->metrics, SRV_METRIC_BUILD_INFO, 1,
                    SRV_LABELS(srv_version, srv_revision, attn_isa_name(server->machine.isa),
                               attn_blas_name()));
    srv_metrics_set(server->metrics, SRV_METRIC_MEMORY_LIMIT, (double)server->budget.limit, NULL);
    const srv_log_field fields[] = {
        srv_log_string("listen", server->config.listen),
        srv_log_string("version", srv_version),
        srv_log_string("isa", attn_isa_name(server->machine.isa)),
        srv_log_int("workers", server->workers),
        srv_log_int("pid", getpid()),
    };
    srv_log_event(&server->log, SRV_LOG_INFO, "serving", fields, sizeof fields / sizeof *fields);
    size_t body = srv_source_bound(SRV_FORMAT_JSON, (size_t)server->config.max_body_bytes);
    if (body > server->budget.limit)
        srv_log_event(&server->log, SRV_LOG_WARN,
                      "a JSON body of max_body_bytes can never fit memory_limit_bytes",
                      (srv_log_field[]){srv_log_int("needs_bytes", (int64_t)body),
                                        srv_log_int("limit_bytes", (int64_t)server->budget.limit)},
                      2);
}

static int serve(srv_server *server)
{
    attn_error error = {0};
    /* One that comes before the loop listens to it asks for what is about to be done anyway. */
    signal(SIGHUP, SIG_IGN);
    srv_experience_open(&server->experience);
    attn_status status = start(server, &error);
    if (status == ATTN_OK) {
        announce(server);
        srv_registry_rescan(server->registry);
        srv_loop_run(server->loop);
        srv_log_event(&server->log, SRV_LOG_INFO, "stopped", NULL, 0);
    }
    /* The loop after the executor: a job's end is told to it. */
    srv_registry_stop(server->registry);
    srv_executor_close(server->executor);
    srv_loop_close(server->loop);
    srv_registry_close(server->registry);
    srv_experience_close(&server->experience);
    srv_metrics_close(server->metrics);
    return status == ATTN_OK ? EXIT_SUCCESS : complain(&error);
}

/* What no single key's range can tell. */
static attn_status check_together(const srv_config *config, attn_error *error)
{
    srv_log_format format;
    srv_log_level level;
    if (!srv_log_format_find(config->log_format, &format))
        return attn_error_set(error, ATTN_INVALID, "log_format",
                              "log_format is \"%s\", expected json or text", config->log_format);
    if (!srv_log_level_find(config->log_level, &level))
        return attn_error_set(error, ATTN_INVALID, "log_level",
                              "log_level is \"%s\", expected debug, info, warn or error",
                              config->log_level);
    if (strcmp(config->model_control, "none") != 0 && !srv_config_is_explicit(config))
        return attn_error_set(error, ATTN_INVALID, "model_control",
                              "model_control is \"%s\", expected none or explicit",
                              config->model_control);
    if (srv_config_is_explicit(config) && !config->model_dir[0])
        return attn_error_set(error, ATTN_INVALID, "model_dir",
                              "model_control is explicit and model_dir is empty; name the folder "
                              "that models are loaded from");
    if (config->short_below > config->long_above)
        return attn_error_set(error, ATTN_INVALID, "short_below",
                              "short_below is %lld, expected at most long_above, which is %lld",
                              (long long)config->short_below, (long long)config->long_above);
    attn_policy policy;
    if (!attn_policy_find(config->policy, &policy))
        return attn_error_set(error, ATTN_INVALID, "policy",
                              "policy is \"%s\", expected guidance or cost", config->policy);
    attn_status status = srv_listen_check(config->listen, "listen", error);
    if (status == ATTN_OK && config->admin_listen[0])
        status = srv_listen_check(config->admin_listen, "admin_listen", error);
    attn_machine machine;
    srv_calibration calibration;
    if (status == ATTN_OK)
        status = attn_machine_probe(&machine, config->isa, error);
    if (status == ATTN_OK && srv_calibration_exists(config->calibration_file))
        status = srv_calibration_read(&calibration, config->calibration_file, machine.isa, error);
    return status;
}

static int configure_and_serve(char **arguments, char **environment)
{
    srv_server server = {0};
    attn_error error = {0};
    bool check, print;
    if (srv_config_read(&server.config, arguments, environment, &check, &print, &error) != ATTN_OK)
        return complain(&error);
    if (print)
        srv_config_print(&server.config, stdout);
    if (check_together(&server.config, &error) != ATTN_OK)
        return complain(&error);
    if (print || check)
        return EXIT_SUCCESS;
    srv_log_format format = SRV_LOG_JSON;
    srv_log_level level = SRV_LOG_INFO;
    srv_log_format_find(server.config.log_format, &format);
    srv_log_level_find(server.config.log_level, &level);
    srv_log_init(&server.log, STDOUT_FILENO, format, level);
    return serve(&server);
}

/* A standard stream that was closed would lend its number to a socket, and log lines would go
 * there. */
static void fill_standard_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int count, char **arguments, char **environment)
{
    fill_standard_streams();
    keep_heap_small();
    const char *command = count > 1 ? arguments[1] : "";
    if (strcmp(command, "bench") == 0)
        return srv_bench(arguments + 2);
    if (strcmp(command, "init-model") == 0)
        return srv_init_model(arguments + 2);
    if (strcmp(command, "calibrate") == 0)
        return srv_cost_calibrate(arguments + 2);
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            print_help(stdout);
            return EXIT_SUCCESS;
        }
    }
    if (strcmp(command, "serve") == 0)
        return configure_and_serve(arguments + 2, environment);
    if (strcmp(command, "healthcheck") == 0 && count == 3)
        return srv_healthcheck(arguments[2]);
    if (strcmp(command, "healthcheck") == 0) {
        fputs("attnd: healthcheck needs one URL, as in attnd healthcheck "
              "http://127.0.0.1:8080/healthz\n",
              stderr);
        return EXIT_USAGE;
    }
    if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0) {
        printf("attnd %s (%s)\n", srv_version, srv_revision);
        return EXIT_SUCCESS;
    }
    if (command[0])
        fprintf(stderr, "attnd: \"%.40s\" is no command; try attnd serve, or attnd --help\n",
                command);
    else
        print_help(stderr);
    return EXIT_USAGE;
}
