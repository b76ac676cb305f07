#include "tests/support/backends.h"

#include <stdio.h>
#include <string.h>

enum {
    TRAINED = EXACT | SPARSE | PERFORMER | HYBRID,
    RECURRENT = MAMBA | HYBRID,
    MEASURABLE = WINDOW | SPARSE | LINFORMER | PERFORMER
};

const char *const backend_names[BACKENDS] = {"exact",     "window", "sparse", "linformer",
                                             "performer", "mamba",  "hybrid"};

static const double predicted_ms[BACKENDS] = {100, 20, 30, 40, 10, 5, 15};

int backend_index(const char *name)
{
    for (int i = 0; i < BACKENDS; i++)
        if (strcmp(backend_names[i], name) == 0)
            return i;
    return NONE;
}

const char *backend_name(int index)
{
    return index < 0 ? "none" : backend_names[index];
}

void backends_fill(attn_candidate candidates[BACKENDS], unsigned eligible)
{
    for (int i = 0; i < BACKENDS; i++) {
        unsigned bit = 1U << i;
        candidates[i] = (attn_candidate){
            .name = backend_names[i],
            .eligible = (eligible & bit) != 0,
            .predicted_ms = predicted_ms[i],
            .predicted_bytes = (size_t)i << 20,
            .trained = (TRAINED & bit) != 0,
            .exact = bit == EXACT,
            .recurrent = (RECURRENT & bit) != 0,
            .measurable = (MEASURABLE & bit) != 0,
        };
        if (!candidates[i].eligible)
            snprintf(candidates[i].why_not, sizeof candidates[i].why_not, "%s cannot",
                     backend_names[i]);
    }
}

attn_facts route_facts(int64_t n, bool long_range, bool locality)
{
    return (attn_facts){.n = n,
                        .long_range = long_range,
                        .locality = locality,
                        .short_below = 4096,
                        .long_above = 32768,
                        .vector_scan = true};
}
