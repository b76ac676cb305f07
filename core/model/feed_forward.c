/* Feed-forward, a chunk of positions at a time. */
#include "model/feed_forward.h"

#include "model/chunks.h"

enum {
    CHUNK = 1024, /* positions */
};

/* Places in SHARED. */
typedef struct workspace {
    attn_region normed;  /* (chunk, hidden), when there is a norm */
    attn_region up, act; /* (chunk, intermediate); act when gated */
} workspace;

/* up = act(up x), or act = act(gate x) and then up = (up x) * act. */
static attn_status widen(attn_program *program, const attn_machine *machine,
                         const attn_feed_forward *f, const attn_site *site, const workspace *at,
                         attn_region x, attn_extent extent, attn_error *error)
{
    attn_product first = {.linear = f->gated ? f->gate : f->up,
                          .x = x,
                          .y = f->gated ? at->act : at->up,
                          .activates = true,
                          .activation = f->activation};
    const attn_product second = {
        .linear = f->up, .x = x, .y = at->up, .multiplies = true, .times = at->act};
    attn_status status =
        attn_products_add(program, machine, site->adapter, &first, 1, extent, error);
    if (status == ATTN_OK && f->gated)
        status = attn_products_add(program, machine, site->adapter, &second, 1, extent, error);
    return status;
}

/* What the steps of a chunk are made from. */
typedef struct block {
    const attn_machine *machine;
    const attn_feed_forward *feed_forward;
    const attn_site *site;
    workspace at;
} block;

static attn_status add_chunk(attn_program *program, const void *layer, int64_t from, int64_t count,
                             attn_error *error)
{
    const block *of = layer;
    const attn_site *site = of->site;
    const workspace *at = &of->at;
    const attn_extent extent = {site->batch, count};
    attn_region x = attn_region_from_row(site->x, from);
    const attn_product down = {.linear = of->feed_forward->down,
                               .x = at->up,
                               .y = attn_region_from_row(site->y, from),
                               .adds = site->adds,
                               .onto = attn_region_from_row(site->onto, from)};
    attn_status status = ATTN_OK;
    if (site->norm) {
        status = attn_row_norm_add(program, &of->machine->rates, site->norm, x, at->normed, extent,
                                   site->hidden, error);
        x = at->normed;
    }
    if (status == ATTN_OK)
        status = widen(program, of->machine, of->feed_forward, site, at, x, extent, error);
    if (status == ATTN_OK)
        status = attn_products_add(program, of->machine, site->adapter, &down, 1, extent, error);
    return status;
}

static attn_status open_workspace(attn_program *program, const attn_feed_forward *f,
                                  const attn_site *site, workspace *at, attn_error *error)
{
    int64_t rows = site->n < CHUNK ? site->n : CHUNK;
    attn_status status =
        attn_program_take_rows(program, site->batch, rows, f->intermediate, &at->up, error);
    if (status == ATTN_OK && f->gated)
        status =
            attn_program_take_rows(program, site->batch, rows, f->intermediate, &at->act, error);
    if (status == ATTN_OK && site->norm)
        status =
            attn_program_take_rows(program, site->batch, rows, site->hidden, &at->normed, error);
    return status;
}

attn_status attn_feed_forward_add(attn_program *program, const attn_machine *machine,
                                  const attn_feed_forward *feed_forward, const attn_site *site,
                                  attn_error *error)
{
    block of = {.machine = machine, .feed_forward = feed_forward, .site = site};
    size_t mark = attn_program_mark(program);
    attn_status status = open_workspace(program, feed_forward, site, &of.at, error);
    if (status == ATTN_OK)
        status = attn_chunks_add(program, site, CHUNK, add_chunk, &of, error);
    attn_program_rewind(program, mark);
    return status;
}
