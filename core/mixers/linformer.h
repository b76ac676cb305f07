/* What the files of Linformer share; linformer.c says how they work together. */
#ifndef ATTN_LINFORMER_H
#define ATTN_LINFORMER_H

#include "mixers/fused.h"

/* Where things lie in the shared workspace, in floats: coefficients drawn, (k, m), if they are; K'
 * and V', (batch, kv_heads, k, columns). */
typedef struct attn_linformer_layout {
    size_t drawn, keys, values, total;
} attn_linformer_layout;

/* linformer.c */

attn_linformer_layout attn_linformer_layout_of(const attn_plan *plan);
/* Rows of K' that batch row b has: 0 when it has no visible key. */
int64_t attn_linformer_keys(const attn_plan *plan, int64_t b);
/* Valid keys of the batch row that has most. */
int64_t attn_linformer_longest_row(const attn_plan *plan);

/* linformer_project.c */

/* The ranges of positions: one phase each. */
attn_ranges attn_linformer_project_ranges(const attn_plan *plan);
size_t attn_linformer_project_bytes(const attn_plan *plan);
attn_status attn_linformer_add_project(attn_plan *plan, const attn_machine *machine,
                                       attn_error *error);
attn_status attn_linformer_run_project(const attn_plan *plan, const attn_mix_io *io, int range,
                                       int64_t tile, attn_arena *scratch);

#endif
