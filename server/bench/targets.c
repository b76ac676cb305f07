/* targets.def as a table. */
#include "server/bench/targets.h"

#include "attn/mixer.h"

#include <string.h>

typedef struct row {
    const char *backend;
    bool causal;
    srv_bench_beside beside;
    int64_t least_n, most_n, d, parameter;
    srv_bench_target target;
} row;

static const row rows[] = {
#define TARGET(backend, causal, beside, least_n, most_n, d, parameter, floor, goal) \
    {#backend, causal, SRV_BENCH_##beside, least_n, most_n, d, parameter, {floor, goal}},
#include "server/bench/targets.def"
#undef TARGET
};

/* What the backend is told on which its speed depends. */
static int64_t parameter_of(const attn_plan *plan)
{
    const char *name = plan->mixer->name;
    if (strcmp(name, "window") == 0)
        return plan->params.window;
    if (strcmp(name, "linformer") == 0)
        return plan->params.k;
    return strcmp(name, "performer") == 0 ? plan->params.features : 0;
}

const srv_bench_target *srv_bench_target_find(const attn_plan *plan, srv_bench_beside beside)
{
    if (!plan->mixer)
        return NULL;
    const attn_shape *s = &plan->shape;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        if (r->beside == beside && r->causal == plan->params.mask.causal && s->n >= r->least_n &&
            s->n <= r->most_n && (r->d == 0 || r->d == s->d) &&
            strcmp(r->backend, plan->mixer->name) == 0 && r->parameter == parameter_of(plan))
            return &r->target;
    }
    return NULL;
}
