#include "tests/support/attend.h"

#include "tests/support/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const attn_kernels *kernels_after(const attn_kernels *kernels)
{
    const attn_kernels *next = NULL;
    int isa = kernels ? (int)kernels->isa + 1 : ATTN_ISA_SCALAR;
    for (; isa < ATTN_ISA_COUNT && !next; isa++)
        next = attn_kernels_find((attn_isa)isa);
    return next;
}

attn_machine attend_machine(attn_isa isa, double flops_per_ns)
{
    attn_rates rates = attn_rates_default();
    if (flops_per_ns != 0)
        rates.attend_flop_ns = rates.product_flop_ns = 1 / flops_per_ns;
    return (attn_machine){.isa = isa,
                          .cores = 1,
                          .l1d_bytes = 32 << 10,
                          .l2_bytes = 1 << 20,
                          .l3_bytes = 16 << 20,
                          .memory_bytes = (size_t)1 << 30,
                          .rates = rates};
}

attn_machine attend_machine_for_ranges(attn_isa isa, const attn_shape *shape, int ranges)
{
    attn_machine machine = attend_machine(isa, 0);
    double pair_flops = 2.0 * (double)(shape->d + shape->dv);
    if (ranges > 0)
        machine.tile_flops =
            pair_flops * attn_kernels_find(isa)->panel_rows * ceil((double)shape->m / ranges);
    return machine;
}

int64_t *attend_order_tiles(int64_t tiles, attend_order order)
{
    int64_t *turn = malloc((size_t)tiles * sizeof *turn);
    test_random random = {42};
    for (int64_t i = 0; turn && i < tiles; i++)
        turn[i] = order == ATTEND_BACKWARD ? tiles - 1 - i : i;
    for (int64_t i = tiles - 1; turn && order == ATTEND_SHUFFLED && i > 0; i--) {
        int64_t other = (int64_t)(random_bits(&random) % (uint64_t)(i + 1)), kept = turn[i];
        turn[i] = turn[other];
        turn[other] = kept;
    }
    return turn;
}

static attn_status run_phase(const attn_mix_io *io, int phase, attend_order order, void *scratch,
                             attend_result *result)
{
    const attn_plan *plan = &result->plan;
    int64_t tiles = plan->phases[phase].tiles;
    int64_t *turn = attend_order_tiles(tiles, order);
    attn_status status = turn ? ATTN_OK : ATTN_NO_MEMORY;
    size_t peak = 0;
    for (int64_t i = 0; i < tiles && status == ATTN_OK; i++) {
        attn_arena arena;
        attn_arena_init(&arena, scratch, plan->scratch_bytes);
        status = plan->mixer->run(plan, io, phase, turn[i], &arena);
        peak = arena.peak > peak ? arena.peak : peak;
    }
    for (int64_t i = 0; i < tiles; i++) {
        result->scores += io->scores[i];
        io->scores[i] = 0;
    }
    if (plan->shared_bytes + peak > result->peak_bytes)
        result->peak_bytes = plan->shared_bytes + peak;
    free(turn);
    return status;
}

static int64_t most_tiles(const attn_plan *plan)
{
    int64_t most = 0;
    for (int p = 0; p < plan->phase_count; p++)
        most = plan->phases[p].tiles > most ? plan->phases[p].tiles : most;
    return most;
}

/* Other tiles than planned, for a plan of one phase of plain runs of rows. */
static void retile(attn_plan *plan, int rows)
{
    const attn_shape *s = &plan->shape;
    plan->tile_rows = rows;
    plan->phases[0].tiles = s->batch * s->heads * ((s->n + rows - 1) / rows);
    plan->scratch_bytes = plan->kernels->attend_bytes(rows, (int)s->d, (int)s->dv,
                                                      plan->params.mask.key_mask != NULL);
}

attn_status attend_run(const attend_call *call, attend_result *result, attn_error *error)
{
    *result = (attend_result){0};
    attn_plan *plan = &result->plan;
    attn_machine machine = attend_machine_for_ranges(call->isa, &call->shape, call->key_ranges);
    attn_mix_params params;
    attn_mix_params_init(&params, call->shape.d);
    if (call->params)
        params = *call->params;
    params.mask = call->mask;
    params.scale = call->scale != 0 ? call->scale : attn_default_scale(call->shape.d);
    const attn_mixer *mixer = attn_mixer_find(call->mixer ? call->mixer : "exact");
    attn_status status = attn_mixer_plan(mixer, &machine, &params, &call->shape, plan, error);
    if (status != ATTN_OK)
        return status;
    if (call->tile_rows)
        retile(plan, call->tile_rows);
    void *shared = NULL, *scratch = NULL;
    attn_mix_io io = {.q = call->q, .k = call->k, .v = call->v, .out = call->out};
    io.scores = calloc((size_t)most_tiles(plan), sizeof *io.scores);
    if (!io.scores || posix_memalign(&shared, ATTN_ALIGN, plan->shared_bytes + 1) != 0 ||
        posix_memalign(&scratch, ATTN_ALIGN, plan->scratch_bytes) != 0)
        status = attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to run the plan in");
    io.shared = shared;
    /* NaN, for whoever reads before writing. */
    if (status == ATTN_OK) {
        memset(shared, 0xFF, plan->shared_bytes);
        memset(scratch, 0xFF, plan->scratch_bytes);
    }
    for (int p = 0; p < plan->phase_count && status == ATTN_OK; p++)
        status = run_phase(&io, p, call->order, scratch, result);
    free(io.scores);
    free(shared);
    free(scratch);
    return status;
}

static float *normals(test_random *random, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values);
    random_fill(random, values, (size_t)count, 1);
    return values;
}

attend_arrays attend_arrays_open(const attn_shape *s, uint64_t seed)
{
    test_random random = {seed};
    attend_arrays a = {.q = normals(&random, s->batch * s->heads * s->n * s->d),
                       .k = normals(&random, s->batch * s->kv_heads * s->m * s->d),
                       .v = normals(&random, s->batch * s->kv_heads * s->m * s->dv),
                       .out_count = (size_t)(s->batch * s->heads * s->n * s->dv)};
    a.out = malloc(a.out_count * sizeof *a.out);
    for (size_t i = 0; i < a.out_count; i++)
        a.out[i] = NAN;
    return a;
}

void attend_arrays_close(attend_arrays *a)
{
    free(a->q);
    free(a->k);
    free(a->v);
    free(a->out);
}

attend_call attend_dense(const attn_shape *s, const attend_arrays *a, attn_isa isa)
{
    return (attend_call){.isa = isa,
                         .shape = *s,
                         .q = attn_view_dense(a->q, s->heads, s->n, s->d),
                         .k = attn_view_dense(a->k, s->kv_heads, s->m, s->d),
                         .v = attn_view_dense(a->v, s->kv_heads, s->m, s->dv),
                         .out = attn_view_dense(a->out, s->heads, s->n, s->dv)};
}

bool attend_sees(const attn_shape *s, const attn_mask *mask, int64_t b, int64_t i, int64_t j)
{
    if (mask->causal && j > i + (s->m - s->n))
        return false;
    if (mask->lengths && (j >= mask->lengths[b] || (s->n == s->m && i >= mask->lengths[b])))
        return false;
    return !mask->key_mask || mask->key_mask[b * s->m + j];
}

uint64_t attend_visible_pairs(const attn_shape *s, const attn_mask *mask)
{
    uint64_t pairs = 0;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->n; i++)
            for (int64_t j = 0; j < s->m; j++)
                pairs += attend_sees(s, mask, b, i, j);
    return pairs * (uint64_t)s->heads;
}
