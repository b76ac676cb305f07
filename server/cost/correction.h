/* What was measured over what the rates predict: factors that later predictions are multiplied by.
 * Each is an average over requests of a kind, by the stage of the request and the decade of n,
 * since what a rate leaves out differs by these: small requests find cold caches, long ones full
 * ones. One thread writes, the loop's; any thread reads. */
#ifndef SERVER_COST_CORRECTION_H
#define SERVER_COST_CORRECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SRV_CORRECTION_KINDS = 32,  /* those beyond are not corrected */
    SRV_CORRECTION_DECADES = 7, /* 1 to 9, 10 to 99, ..., 10^6 and more */
};
#define SRV_CORRECTION_LEAST 0.25
#define SRV_CORRECTION_MOST  4.0

typedef enum srv_stage {
    SRV_STAGE_READ,
    SRV_STAGE_COMPUTE,
    SRV_STAGE_PRINT,
    SRV_STAGES /* how many there are */
} srv_stage;

/* "read", "compute", "print". */
const char *srv_stage_name(srv_stage stage);

/* Requests that share factors. */
typedef struct srv_kind {
    srv_stage stage;
    const char
        *what;  /* the encoding that is read or printed, or the backend that computes; static */
    bool model; /* of a loaded model, else a raw call */
} srv_kind;

typedef struct srv_correction_entry {
    srv_kind kind;
    struct {
        _Atomic double factor; /* 0: nothing was measured, as good as 1 */
        int samples;           /* the writer's */
    } decades[SRV_CORRECTION_DECADES];
} srv_correction_entry;

/* All zero is one that has measured nothing. */
typedef struct srv_correction {
    atomic_int count; /* of entries that readers may look at */
    srv_correction_entry entries[SRV_CORRECTION_KINDS];
} srv_correction;

/* Of a length; and the least length in a decade, "1" to "1000000". */
int srv_correction_decade(int64_t n);
const char *srv_correction_decade_name(int decade);

/* Where the decade has none, that of the nearest that has, the shorter first; 1 until something was
 * measured. Any thread. */
double srv_correction_factor(const srv_correction *correction, srv_kind kind, int64_t n);

/* A request took `actual_ns` where the rates alone predict `rates_ns`; neither counts unless both
 * are positive. The factor follows the ratio, which an outlier moves only so far. The writer's
 * thread. */
void srv_correction_learn(srv_correction *correction, srv_kind kind, int64_t n, double actual_ns,
                          double rates_ns);

#endif
