/* One table of rates, the machine's and the daemon's, by which a calibration is printed and read.
 */
#include "server/cost/calibration.h"

#include "attn/blas.h"
#include "attn/nearest.h"
#include "server/flat.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The keys that are no rates. */
#define ISA_KEY  "isa"
#define BLAS_KEY "blas"
/* Nanoseconds that no rate of any machine reaches. */
#define MOST_NS 1e9

typedef struct entry {
    const char *key;
    size_t offset;
} entry;

static const entry entries[] = {
#define RATE(member, fallback, what) {#member, offsetof(srv_calibration, machine.member)},
#include "attn/rates.def"
#undef RATE
#define RATE(member, fallback, what) {#member, offsetof(srv_calibration, server.member)},
#include "server/cost/rates.def"
#undef RATE
};
enum {
    RATES = sizeof entries / sizeof *entries
};

static double *rate_of(srv_calibration *calibration, const entry *e)
{
    return (double *)(void *)((char *)calibration + e->offset);
}

attn_status srv_calibration_measure(srv_calibration *calibration, const attn_machine *machine,
                                    srv_executor *executor, int workers, attn_error *error)
{
    attn_machine measured = *machine;
    attn_status status = attn_machine_calibrate(&measured, error);
    if (status == ATTN_OK)
        status = srv_rates_measure(&calibration->server, executor, workers, error);
    calibration->isa = machine->isa;
    calibration->machine = measured.rates;
    return status;
}

void srv_calibration_print(const srv_calibration *calibration, srv_text *text)
{
    srv_text_string(text, "{\n  \"" ISA_KEY "\": ");
    srv_text_json(text, attn_isa_name(calibration->isa));
    srv_text_string(text, ",\n  \"" BLAS_KEY "\": ");
    srv_text_json(text, attn_blas_name());
    for (int i = 0; i < RATES; i++) {
        srv_text_format(text, ",\n  \"%s\": ", entries[i].key);
        /* More digits would say that noise is known. */
        srv_text_format(text, "%.5g",
                        *rate_of((srv_calibration *)(uintptr_t)calibration, &entries[i]));
    }
    srv_text_string(text, "\n}\n");
}

bool srv_calibration_exists(const char *path)
{
    return path[0] && access(path, F_OK) == 0;
}

/* A file on its way in. */
typedef struct reading {
    srv_calibration *calibration;
    attn_isa isa; /* that it has to be for */
    bool has_isa, has[RATES];
} reading;

static const char *key_at(int index)
{
    static const char *const others[] = {ISA_KEY, BLAS_KEY, NULL};
    return index < RATES ? entries[index].key : others[index - RATES];
}

static attn_status take_isa(reading *r, const char *path, const srv_flat_value *value,
                            attn_error *error)
{
    r->has_isa = true;
    if (strcmp(value->text, attn_isa_name(r->isa)) == 0)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, ISA_KEY,
                          "%.120s: isa is \"%.24s\", but attnd uses %s here; measure again with "
                          "attnd calibrate --out, or name another calibration_file",
                          path, value->text, attn_isa_name(r->isa));
}

static attn_status take_rate(reading *r, int index, const char *path, const srv_flat_value *value,
                             attn_error *error)
{
    bool number = value->kind == SRV_FLAT_INT || value->kind == SRV_FLAT_REAL;
    double rate = number ? strtod(value->text, NULL) : 0;
    if (!(rate > 0 && rate <= MOST_NS))
        return attn_error_set(
            error, ATTN_INVALID, entries[index].key,
            "%.120s: %s is %.32s, expected nanoseconds, a number above 0 and at "
            "most %g",
            path, entries[index].key,
            value->kind == SRV_FLAT_OTHER ? "a list, an object or null" : value->text, MOST_NS);
    *rate_of(r->calibration, &entries[index]) = rate;
    r->has[index] = true;
    return ATTN_OK;
}

static attn_status take(void *context, const char *path, const char *key,
                        const srv_flat_value *value, attn_error *error)
{
    reading *r = context;
    for (int i = 0; i < RATES; i++)
        if (strcmp(entries[i].key, key) == 0)
            return take_rate(r, i, path, value, error);
    if (strcmp(key, ISA_KEY) == 0)
        return take_isa(r, path, value, error);
    if (strcmp(key, BLAS_KEY) == 0)
        return ATTN_OK; /* for people */
    const char *nearest = attn_nearest(key, key_at);
    if (!nearest)
        return attn_error_set(error, ATTN_INVALID, "calibration_file",
                              "%.120s: unknown key \"%.40s\"; attnd calibrate prints those there "
                              "are",
                              path, key);
    return attn_error_set(error, ATTN_INVALID, "calibration_file",
                          "%.120s: unknown key \"%.40s\"; the nearest is \"%s\"", path, key,
                          nearest);
}

attn_status srv_calibration_read(srv_calibration *calibration, const char *path, attn_isa isa,
                                 attn_error *error)
{
    reading r = {.calibration = calibration, .isa = isa};
    attn_status status = srv_flat_read(path, "calibration_file", take, &r, error);
    calibration->isa = isa;
    if (status != ATTN_OK)
        return status;
    int i = 0;
    while (i < RATES && r.has[i])
        i++;
    if (i == RATES && r.has_isa)
        return ATTN_OK;
    return attn_error_set(error, ATTN_INVALID, "calibration_file",
                          "%.120s lacks %s; measure again with attnd calibrate --out", path,
                          i < RATES ? entries[i].key : ISA_KEY);
}

/* All of the text, on the disk. */
static bool write_whole(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        text += written;
        length -= (size_t)written;
    }
    return fsync(fd) == 0;
}

static attn_status replace(const char *path, const srv_text *text, attn_error *error)
{
    char partial[512];
    snprintf(partial, sizeof partial, "%.480s.%d.partial", path, (int)getpid());
    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool written = fd >= 0 && write_whole(fd, text->data, text->length);
    if (fd >= 0 && close(fd) != 0)
        written = false;
    if (written && rename(partial, path) == 0)
        return ATTN_OK;
    attn_error_set(error, ATTN_INVALID, "calibration_file", "%.200s cannot be written: %s", path,
                   strerror(errno));
    if (fd >= 0)
        unlink(partial);
    return ATTN_INVALID;
}

attn_status srv_calibration_save(const srv_calibration *calibration, const char *path,
                                 attn_error *error)
{
    srv_text text = SRV_TEXT_EMPTY;
    srv_calibration_print(calibration, &text);
    attn_status status = text.failed ? attn_error_set(error, ATTN_NO_MEMORY, "calibration_file",
                                                      "no memory for the calibration")
                                     : replace(path, &text, error);
    srv_text_free(&text);
    return status;
}
