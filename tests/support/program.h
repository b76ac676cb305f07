/* Run a whole program on one thread, in workspace not a byte larger than it asks for. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include "attn/program.h"
#include "tests/support/attend.h"

/* frame->data[ATTN_ARRAY_SHARED] is set, NaN before the first tile, and the caller's to free(). The
 * most that was used of shared and scratch is *peak_bytes. */
attn_status program_run(const attn_program *program, attn_frame *frame, attend_order order,
                        size_t *peak_bytes);

#endif
