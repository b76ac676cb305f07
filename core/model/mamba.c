/* A Mamba block, a chunk of positions at a time. Every chunk is the same six steps on one small
 * workspace: [norm,] project in, convolve, project to dt, B and C, project dt, scan, project out.
 *
 * A length cuts a sequence off; a key mask multiplies x by 0 before and after the convolution,
 * which makes B and C 0 too, so that padding on the left leaves the state as it was: 0. */
#include "model/mamba.h"

#include "kernels/kernels.h"
#include "model/chunks.h"

#include <string.h>

enum {
    CHUNK = 1024,       /* positions */
    TILE_CHANNELS = 64, /* whole lanes of every ISA */
};

/* Places in SHARED. */
typedef struct workspace {
    attn_region normed;   /* (chunk, hidden), when there is a norm */
    attn_region x, z;     /* (chunk, 2 Di): halves of one array */
    attn_region selected; /* (chunk, R + 2 N): dt, B and C */
    attn_region dt;       /* (chunk, Di), then the answer */
    attn_region history;  /* (K - 1, Di) */
    attn_region state;    /* as attn_scan_floats counts */
} workspace;

/* One chunk's part of the recurrence. */
typedef struct recurrence {
    attn_step step;
    const attn_mamba *mamba;
    const attn_scan_kernels *kernels;
    workspace at;
    attn_mask mask;
    int64_t batch, n;
    int64_t from, count; /* positions of this chunk, from the frame's row on */
} recurrence;

/* Position at which the chunk begins. */
static int64_t start_of(const recurrence *r, const attn_frame *frame)
{
    return frame->row + r->from;
}

/* A tile: channels [first, last) of a batch row, and the positions of the chunk that are not beyond
 * its length. */
typedef struct span {
    int64_t b, first, last, count;
} span;

static int64_t ranges(const attn_mamba *mamba)
{
    return (mamba->inner + TILE_CHANNELS - 1) / TILE_CHANNELS;
}

static span span_of(const recurrence *r, const attn_step_tile *tile)
{
    span s = {.b = tile->index / ranges(r->mamba),
              .first = tile->index % ranges(r->mamba) * TILE_CHANNELS};
    s.last = s.first + TILE_CHANNELS < r->mamba->inner ? s.first + TILE_CHANNELS : r->mamba->inner;
    int64_t left = r->mask.lengths ? r->mask.lengths[s.b] - start_of(r, tile->frame) : r->count;
    s.count = left < 0 ? 0 : left < r->count ? left : r->count;
    return s;
}

static float *rows_of(attn_region region, const attn_frame *frame, int64_t b)
{
    return attn_view_row(attn_region_view(region, frame), b, 0, 0);
}

/* (rows, channels) = 0 for the span's channels. */
static void clear(float *rows, ptrdiff_t stride, int64_t count, const span *s)
{
    for (int64_t i = 0; i < count; i++)
        memset(rows + i * stride + s->first, 0, (size_t)(s->last - s->first) * sizeof *rows);
}

static attn_status convolve(const attn_step *step, const attn_step_tile *tile)
{
    const recurrence *r = (const void *)step;
    const attn_frame *frame = tile->frame;
    const attn_mamba *m = r->mamba;
    span s = span_of(r, tile);
    float *x = rows_of(r->at.x, frame, s.b), *history = rows_of(r->at.history, frame, s.b);
    const uint8_t *mask = r->mask.key_mask;
    if (start_of(r, frame) == 0)
        clear(history, r->at.history.row, m->taps - 1, &s);
    const attn_conv conv = {
        .count = s.count,
        .channels = m->inner,
        .x = x,
        .out = x,
        .x_stride = r->at.x.row,
        .out_stride = r->at.x.row,
        .width = m->taps,
        .taps = m->conv,
        .bias = m->conv_bias,
        .history = history,
        .mask = mask ? mask + s.b * r->n + start_of(r, frame) : NULL,
    };
    r->kernels->convolve(&conv, s.first, s.last);
    return ATTN_OK;
}

static attn_status scan(const attn_step *step, const attn_step_tile *tile)
{
    const recurrence *r = (const void *)step;
    const attn_frame *frame = tile->frame;
    const attn_mamba *m = r->mamba;
    span s = span_of(r, tile);
    float *selected = rows_of(r->at.selected, frame, s.b),
          *state = rows_of(r->at.state, frame, s.b);
    float *y = rows_of(r->at.dt, frame, s.b);
    if (start_of(r, frame) == 0) {
        size_t from = attn_scan_floats(s.first, (int)m->states);
        size_t end = attn_scan_floats(s.last, (int)m->states);
        memset(state + from, 0, (end - from) * sizeof *state);
    }
    const attn_scan job = {
        .count = s.count,
        .channels = m->inner,
        .states = (int)m->states,
        .euler = m->euler,
        .x = rows_of(r->at.x, frame, s.b),
        .dt = y,
        .b = selected + m->b_at,
        .c = selected + m->c_at,
        .z = rows_of(r->at.z, frame, s.b),
        .y = y,
        .x_stride = r->at.x.row,
        .dt_stride = r->at.dt.row,
        .b_stride = r->at.selected.row,
        .c_stride = r->at.selected.row,
        .z_stride = r->at.z.row,
        .y_stride = r->at.dt.row,
        .a = m->a,
        .dt_bias = m->dt_bias,
        .skip = m->skip,
        .h = state,
    };
    r->kernels->scan(&job, s.first, s.last);
    clear(y + s.count * r->at.dt.row, r->at.dt.row, r->count - s.count, &s);
    return ATTN_OK;
}

static const attn_step_kind convolve_kind = {.run = convolve};
static const attn_step_kind scan_kind = {.run = scan};

static attn_status open_workspace(attn_program *program, const attn_mamba *m, const attn_site *site,
                                  workspace *at, attn_error *error)
{
    int64_t chunk = site->n < CHUNK ? site->n : CHUNK;
    /* In lines: a kernel wants its states aligned in every batch row. */
    int64_t states = (int64_t)attn_scan_floats(m->inner, (int)m->states);
    const struct {
        attn_region *region;
        int64_t rows, columns;
    } parts[] = {{&at->normed, site->norm ? chunk : 0, site->hidden},
                 {&at->x, chunk, 2 * m->inner},
                 {&at->selected, chunk, m->rank + 2 * m->states},
                 {&at->dt, chunk, m->inner},
                 {&at->history, m->taps - 1, m->inner},
                 {&at->state, 1, states}};
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && status == ATTN_OK; i++)
        status = attn_program_take_rows(program, site->batch, parts[i].rows, parts[i].columns,
                                        parts[i].region, error);
    at->z = attn_region_from_column(at->x, m->inner);
    return status;
}

static attn_status add_recurrence(attn_program *program, const attn_step_kind *kind,
                                  const char *name, double channel_ns, const recurrence *like,
                                  attn_error *error)
{
    recurrence *r = attn_program_add(program, kind, sizeof *r, 1, error);
    if (!r)
        return ATTN_NO_MEMORY;
    attn_step step = r->step;
    *r = *like;
    r->step = step;
    r->step.phase = (attn_phase){.name = name, .tiles = like->batch * ranges(like->mamba)};
    double numbers = (double)(like->batch * like->count * like->mamba->inner);
    r->step.phase.tile_ns = numbers * channel_ns / (double)r->step.phase.tiles;
    return ATTN_OK;
}

/* One product of the chunk. */
static attn_status project(attn_program *program, const attn_machine *machine,
                           const attn_site *site, const attn_linear *linear, attn_region x,
                           attn_region y, int64_t count, attn_error *error)
{
    const attn_product product = {.linear = *linear, .x = x, .y = y};
    return attn_products_add(program, machine, site->adapter, &product, 1,
                             (attn_extent){site->batch, count}, error);
}

static attn_status project_out(attn_program *program, const attn_machine *machine,
                               const attn_mamba *m, const attn_site *site, const recurrence *r,
                               attn_error *error)
{
    const attn_product product = {.linear = m->out_proj,
                                  .x = r->at.dt,
                                  .y = attn_region_from_row(site->y, r->from),
                                  .adds = site->adds,
                                  .onto = attn_region_from_row(site->onto, r->from)};
    return attn_products_add(program, machine, site->adapter, &product, 1,
                             (attn_extent){site->batch, r->count}, error);
}

/* What the steps of a chunk are made from. */
typedef struct mamba_block {
    const attn_machine *machine;
    const attn_site *site;
    recurrence like; /* of the whole sequence */
} mamba_block;

static attn_status add_chunk(attn_program *program, const void *layer, int64_t from, int64_t count,
                             attn_error *error)
{
    const mamba_block *block = layer;
    const attn_machine *machine = block->machine;
    const attn_site *site = block->site;
    const attn_mamba *m = block->like.mamba;
    recurrence chunk = block->like;
    chunk.from = from;
    chunk.count = count;
    const recurrence *r = &chunk;
    const workspace *at = &r->at;
    attn_region x = attn_region_from_row(site->x, r->from);
    attn_region dt = attn_region_from_column(at->selected, m->dt_at);
    attn_status status = ATTN_OK;
    if (site->norm) {
        status = attn_row_norm_add(program, &machine->rates, site->norm, x, at->normed,
                                   (attn_extent){site->batch, r->count}, site->hidden, error);
        x = at->normed;
    }
    if (status == ATTN_OK)
        status = project(program, machine, site, &m->in_proj, x, at->x, r->count, error);
    if (status == ATTN_OK)
        status = add_recurrence(program, &convolve_kind, "convolve", machine->rates.conv_channel_ns,
                                r, error);
    if (status == ATTN_OK)
        status = project(program, machine, site, &m->x_proj, at->x, at->selected, r->count, error);
    if (status == ATTN_OK)
        status = project(program, machine, site, &m->dt_proj, dt, at->dt, r->count, error);
    if (status == ATTN_OK)
        status = add_recurrence(program, &scan_kind, "scan",
                                (double)m->states * machine->rates.scan_state_ns, r, error);
    if (status == ATTN_OK)
        status = project_out(program, machine, m, site, r, error);
    return status;
}

attn_status attn_mamba_add(attn_program *program, const attn_machine *machine,
                           const attn_mamba *mamba, const attn_site *site, attn_error *error)
{
    mamba_block block = {.machine = machine,
                         .site = site,
                         .like = {.mamba = mamba,
                                  .kernels = attn_kernels_find(machine->isa)->scan,
                                  .mask = site->mask,
                                  .batch = site->batch,
                                  .n = site->n}};
    size_t mark = attn_program_mark(program);
    attn_status status = open_workspace(program, mamba, site, &block.like.at, error);
    if (status == ATTN_OK)
        status = attn_chunks_add(program, site, CHUNK, add_chunk, &block, error);
    attn_program_rewind(program, mark);
    return status;
}
