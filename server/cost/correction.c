/* Exponential averages that readers need no lock for. */
#include "server/cost/correction.h"

#include <math.h>
#include <string.h>

/* The newest sample's weight, once there are more of them. At first the average is that of all,
 * with what was assumed as one of them. */
#define WEIGHT 0.1

static const char *const decade_names[SRV_CORRECTION_DECADES] = {
    "1", "10", "100", "1000", "10000", "100000", "1000000"};

static const char *const stage_names[SRV_STAGES] = {"read", "compute", "print"};

const char *srv_stage_name(srv_stage stage)
{
    return stage_names[stage];
}

int srv_correction_decade(int64_t n)
{
    int decade = 0;
    for (; n >= 10 && decade < SRV_CORRECTION_DECADES - 1; n /= 10)
        decade++;
    return decade;
}

const char *srv_correction_decade_name(int decade)
{
    return decade_names[decade];
}

static bool is_same(srv_kind a, srv_kind b)
{
    return a.stage == b.stage && a.model == b.model && strcmp(a.what, b.what) == 0;
}

/* The entry's index, or the number of entries. */
static int find(const srv_correction *correction, srv_kind kind)
{
    int count = atomic_load(&correction->count), i = 0;
    while (i < count && !is_same(correction->entries[i].kind, kind))
        i++;
    return i;
}

double srv_correction_factor(const srv_correction *correction, srv_kind kind, int64_t n)
{
    int i = find(correction, kind);
    if (i == SRV_CORRECTION_KINDS)
        return 1;
    /* One not in use holds nothing but 0. */
    const srv_correction_entry *entry = &correction->entries[i];
    int decade = srv_correction_decade(n);
    for (int away = 0; away < SRV_CORRECTION_DECADES; away++)
        for (int side = -1; side <= 1; side += 2) {
            int at = decade + side * away;
            double factor = at >= 0 && at < SRV_CORRECTION_DECADES
                                ? atomic_load(&entry->decades[at].factor)
                                : 0;
            if (factor != 0)
                return factor;
        }
    return 1;
}

void srv_correction_learn(srv_correction *correction, srv_kind kind, int64_t n, double actual_ns,
                          double rates_ns)
{
    double ratio = actual_ns / rates_ns;
    int i = find(correction, kind), decade = srv_correction_decade(n);
    if (!(actual_ns > 0 && rates_ns > 0 && isfinite(ratio)) || i == SRV_CORRECTION_KINDS)
        return;
    srv_correction_entry *entry = &correction->entries[i];
    if (i == atomic_load(&correction->count)) {
        entry->kind = kind;
        atomic_store(&correction->count, i + 1);
    }
    double before = srv_correction_factor(correction, kind, n);
    double weight = fmax(1.0 / (++entry->decades[decade].samples + 1), WEIGHT);
    ratio = fmin(fmax(ratio, SRV_CORRECTION_LEAST), SRV_CORRECTION_MOST);
    atomic_store(&entry->decades[decade].factor, before + weight * (ratio - before));
}
