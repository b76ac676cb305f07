/* What was measured over what was predicted, by backend and decade of n: factors that later
 * predictions are multiplied by. One thread writes, the loop's; any thread reads. */
#ifndef SERVER_COST_CORRECTION_H
#define SERVER_COST_CORRECTION_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    SRV_CORRECTION_BACKENDS = 8, /* those beyond are not corrected */
    SRV_CORRECTION_DECADES = 7   /* 1 to 9, 10 to 99, ..., 10^6 and more */
};
#define SRV_CORRECTION_LEAST 0.25
#define SRV_CORRECTION_MOST  4.0

typedef struct srv_correction_entry {
    const char *backend; /* static */
    struct {
        _Atomic double factor; /* 0: nothing was measured, as good as 1 */
        int samples;           /* the writer's */
    } decades[SRV_CORRECTION_DECADES];
} srv_correction_entry;

/* All zero is one that has measured nothing. */
typedef struct srv_correction {
    atomic_int count; /* of entries that readers may look at */
    srv_correction_entry entries[SRV_CORRECTION_BACKENDS];
} srv_correction;

/* Of a length; and the smallest length in a decade, "1" to "1000000". */
int srv_correction_decade(int64_t n);
const char *srv_correction_decade_name(int decade);

/* 1 until something was measured. Any thread. */
double srv_correction_factor(const srv_correction *correction, const char *backend, int64_t n);

/* A request took `actual_ns` where the rates alone had predicted `predicted_ns`; neither counts
 * unless both are positive. The factor follows the ratio, an outlier moving it only so far. The
 * writer's thread. */
void srv_correction_learn(srv_correction *correction, const char *backend, int64_t n,
                          double actual_ns, double predicted_ns);

#endif
