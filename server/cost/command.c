/* The command that measures the rates and does nothing else. */
#include "server/cost/command.h"

#include "attn/blas.h"
#include "server/cost/calibration.h"
#include "server/flags.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2
};

typedef struct options {
    const char *out, *isa;
    int64_t workers;
} options;

static const srv_flag flag_list[] = {
    {"out", "", 0, 0, "file to write; empty: print", offsetof(options, out), srv_flag_text},
    {"isa", "auto", 0, 0, "kernels to measure: auto, scalar, avx2 or avx512",
     offsetof(options, isa), srv_flag_text},
    {"workers", "0", 0, SRV_MAX_WORKERS, "compute threads; 0: the usable cores",
     offsetof(options, workers), srv_flag_int},
};
enum {
    FLAGS = sizeof flag_list / sizeof *flag_list
};

static const char *name_at(int index)
{
    return index < FLAGS ? flag_list[index].name : NULL;
}

static const srv_flags flags = {
    .command = "calibrate", .count = FLAGS, .list = flag_list, .name_at = name_at};

static void print_help(void)
{
    fputs("usage: attnd calibrate [--flag value]...\n"
          "\n"
          "Measure what predictions are made of, as attnd serve does when it starts, and print it\n"
          "as JSON or write the file that calibration_file names. Nanoseconds of one core each.\n"
          "\n"
          "flags, with [defaults]:\n",
          stdout);
    srv_flags_help(&flags, stdout);
}

static attn_status deliver(const srv_calibration *c, const char *out, attn_error *error)
{
    if (out[0])
        return srv_calibration_save(c, out, error);
    srv_text text = SRV_TEXT_EMPTY;
    srv_calibration_print(c, &text);
    attn_status status =
        text.failed ? attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to print the rates")
                    : ATTN_OK;
    if (status == ATTN_OK)
        fputs(text.data, stdout);
    srv_text_free(&text);
    return status;
}

static attn_status calibrate(char *const *arguments, attn_error *error)
{
    options o;
    attn_machine machine;
    srv_calibration c;
    attn_status status = srv_flags_read(&flags, &o, NULL, arguments, error);
    if (status == ATTN_OK)
        status = attn_machine_probe(&machine, o.isa, error);
    if (status != ATTN_OK)
        return status;
    int64_t wanted = o.workers ? o.workers : machine.cores;
    int workers = (int)(wanted < SRV_MAX_WORKERS ? wanted : SRV_MAX_WORKERS);
    attn_blas_init();
    srv_executor *executor = srv_executor_open(workers, error);
    if (!executor)
        return error->status;
    status = srv_calibration_measure(&c, &machine, executor, workers, error);
    srv_executor_close(executor);
    return status == ATTN_OK ? deliver(&c, o.out, error) : status;
}

int srv_cost_calibrate(char *const *arguments)
{
    attn_error error = {0};
    for (char *const *argument = arguments; *argument; argument++)
        if (strcmp(*argument, "--help") == 0 || strcmp(*argument, "-h") == 0) {
            print_help();
            return EXIT_SUCCESS;
        }
    attn_status status = calibrate(arguments, &error);
    if (status == ATTN_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "attnd: %s\n", error.message);
    return status == ATTN_INVALID ? EXIT_USAGE : EXIT_FAILURE;
}
