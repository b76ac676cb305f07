#include "tests/support/program.h"

#include <stdlib.h>
#include <string.h>

static attn_status run_phase(const attn_program *program, const attn_frame *frame, int phase,
                             attend_order order, void *scratch, size_t *peak)
{
    int64_t tiles = attn_program_phase(program, phase).tiles;
    int64_t *turn = attend_order_tiles(tiles, order);
    attn_status status = turn ? ATTN_OK : ATTN_NO_MEMORY;
    for (int64_t i = 0; i < tiles && status == ATTN_OK; i++) {
        attn_arena arena;
        attn_arena_init(&arena, scratch, attn_program_scratch_bytes(program));
        status = attn_program_run(program, frame, phase, turn[i], &arena);
        *peak = arena.peak > *peak ? arena.peak : *peak;
    }
    free(turn);
    return status;
}

attn_status program_run(const attn_program *program, attn_frame *frame, attend_order order,
                        size_t *peak_bytes)
{
    size_t shared_bytes = attn_program_shared_bytes(program), peak = 0;
    size_t scratch_bytes = attn_program_scratch_bytes(program);
    void *shared = NULL, *scratch = NULL;
    if (posix_memalign(&shared, ATTN_ALIGN, shared_bytes + 1) != 0 ||
        posix_memalign(&scratch, ATTN_ALIGN, scratch_bytes + 1) != 0)
        return ATTN_NO_MEMORY;
    memset(shared, 0xFF, shared_bytes);
    memset(scratch, 0xFF, scratch_bytes);
    frame->data[ATTN_ARRAY_SHARED] = shared;
    attn_status status = ATTN_OK;
    for (int p = 0; p < attn_program_phases(program) && status == ATTN_OK; p++)
        status = run_phase(program, frame, p, order, scratch, &peak);
    free(scratch);
    *peak_bytes = shared_bytes + peak;
    return status;
}
