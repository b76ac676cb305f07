/* An attention layer as steps. Heads lie interleaved, as the projections leave them: views tell the
 * mixer where, and nothing is transposed. */
#include "model/attention.h"

#include "program/mix.h"
#include "program/sample.h"

/* Places in SHARED. */
typedef struct workspace {
    attn_region normed; /* (n, hidden), when there is a norm */
    attn_region q, k, v, mixed;
} workspace;

static attn_status open_workspace(attn_program *program, const attn_attention *a,
                                  const attn_site *site, workspace *at, attn_error *error)
{
    const int64_t queries = a->heads * a->head_dim, keys = a->kv_heads * a->head_dim;
    const struct {
        attn_region *region;
        int64_t columns;
    } parts[] = {{&at->normed, site->norm ? site->hidden : 0},
                 {&at->q, queries},
                 {&at->k, keys},
                 {&at->v, keys},
                 {&at->mixed, queries}};
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == ATTN_OK; i++)
        status = attn_program_take_rows(program, site->batch, site->n, parts[i].columns,
                                        parts[i].region, error);
    return status;
}

static attn_status project_in(attn_program *program, const attn_machine *machine,
                              const attn_attention *a, const attn_site *site, const workspace *at,
                              attn_error *error)
{
    const attn_extent all = {site->batch, site->n};
    attn_region x = site->norm ? at->normed : site->x;
    const attn_product products[] = {{.linear = a->q, .x = x, .y = at->q},
                                     {.linear = a->k, .x = x, .y = at->k},
                                     {.linear = a->v, .x = x, .y = at->v}};
    attn_status status = ATTN_OK;
    if (site->norm)
        status = attn_row_norm_add(program, &machine->rates, site->norm, site->x, at->normed, all,
                                   site->hidden, error);
    if (status == ATTN_OK)
        status = attn_products_add(program, machine, site->adapter, products, 3, all, error);
    return status;
}

static attn_status project_out(attn_program *program, const attn_machine *machine,
                               const attn_attention *a, const attn_site *site, attn_region mixed,
                               attn_error *error)
{
    const attn_product product = {
        .linear = a->out, .x = mixed, .y = site->y, .adds = site->adds, .onto = site->onto};
    return attn_products_add(program, machine, site->adapter, &product, 1,
                             (attn_extent){site->batch, site->n}, error);
}

/* Exact attention for some rows between the same projections, and the comparison with the answer.
 */
static attn_status add_sampling(attn_program *program, const attn_machine *machine,
                                const attn_attention *a, const attn_plan *plan,
                                const attn_mix_regions *regions, const attn_site *site,
                                const attn_sampling *sampling, attn_error *error)
{
    int64_t columns = a->heads * a->head_dim;
    attn_samples samples;
    attn_samples_choose(&samples, sampling, &plan->shape, &plan->params.mask);
    if (samples.count == 0)
        return ATTN_OK;
    attn_product product = {.linear = a->out};
    attn_status status =
        attn_program_take_rows(program, 1, samples.count, columns, &product.x, error);
    if (status == ATTN_OK)
        status = attn_program_take_rows(program, 1, samples.count, site->hidden, &product.y, error);
    if (status != ATTN_OK)
        return status;
    status = attn_sample_add(program, machine, &plan->params, &plan->shape, &samples, regions,
                             attn_region_with_heads(product.x, a->head_dim), error);
    if (status == ATTN_OK)
        status = attn_products_add(program, machine, site->adapter, &product, 1,
                                   (attn_extent){1, samples.count}, error);
    if (status == ATTN_OK)
        status = attn_compare_add(program, &machine->rates, &samples, 1, site->hidden, product.y,
                                  site->y, error);
    return status;
}

static void fill_params(const attn_attention *a, const attn_site *site, attn_mix_params *params)
{
    params->mask.lengths = site->mask.lengths;
    params->mask.key_mask = site->mask.key_mask;
    if (!a->e)
        return;
    params->projection = ATTN_GIVEN;
    params->e = a->e;
    params->f = a->f;
    params->projection_heads = 1;
    params->projection_length = a->length;
    params->k = a->projected;
}

attn_status attn_attention_add(attn_program *program, const attn_machine *machine,
                               const attn_attention *attention, const attn_mixer *mixer,
                               const attn_mix_params *mix, const attn_site *site,
                               const attn_sampling *sampling, attn_error *error)
{
    const attn_attention *a = attention;
    const attn_shape shape = {.batch = site->batch,
                              .heads = a->heads,
                              .kv_heads = a->kv_heads,
                              .n = site->n,
                              .m = site->n,
                              .d = a->head_dim,
                              .dv = a->head_dim};
    attn_mix_params params = *mix;
    attn_plan plan;
    workspace at;
    size_t mark = attn_program_mark(program);
    fill_params(a, site, &params);
    attn_status status = attn_mixer_plan(mixer, machine, &params, &shape, &plan, error);
    if (status == ATTN_OK)
        status = open_workspace(program, a, site, &at, error);
    if (status != ATTN_OK)
        return status;
    const attn_mix_regions regions = {.q = attn_region_with_heads(at.q, a->head_dim),
                                      .k = attn_region_with_heads(at.k, a->head_dim),
                                      .v = attn_region_with_heads(at.v, a->head_dim),
                                      .out = attn_region_with_heads(at.mixed, a->head_dim)};
    status = project_in(program, machine, a, site, &at, error);
    if (status == ATTN_OK)
        status = attn_mix_add(program, &plan, &regions, error);
    if (status == ATTN_OK)
        status = project_out(program, machine, a, site, at.mixed, error);
    if (status == ATTN_OK && sampling && sampling->rows > 0)
        status = add_sampling(program, machine, a, &plan, &regions, site, sampling, error);
    attn_program_rewind(program, mark);
    return status;
}
