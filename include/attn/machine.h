/* The box, measured: what plans are made for. Filled once at start-up, then read only. */
#ifndef ATTN_MACHINE_H
#define ATTN_MACHINE_H

#include "attn/rates.h"
#include "attn/status.h"

#include <stddef.h>

/* Instruction sets with an overlay of their own, best last. */
typedef enum attn_isa {
    ATTN_ISA_SCALAR,
    ATTN_ISA_AVX2,   /* AVX2 and FMA */
    ATTN_ISA_AVX512, /* AVX-512 F */
    ATTN_ISA_COUNT
} attn_isa;

typedef struct attn_machine {
    attn_isa isa;
    int cores; /* usable: the smallest of online, affinity and the cgroup's quota */
    size_t l1d_bytes, l2_bytes, l3_bytes;
    size_t memory_bytes; /* the smaller of RAM and the cgroup's limit */
    attn_rates rates;    /* of one core */
    double tile_flops; /* work of a tile; 0: what the kernels think right, so that bits are the same
                          on every machine of an ISA */
} attn_machine;

const char *attn_isa_name(attn_isa isa);

/* Look at the machine. `isa` is "auto", "scalar", "avx2" or "avx512"; asking for one that the CPU
 * lacks is ATTN_UNSUPPORTED, an unknown name ATTN_INVALID. The rates are those of a machine that
 * nobody measured. */
attn_status attn_machine_probe(attn_machine *machine, const char *isa, attn_error *error);

/* Measure machine->rates for machine->isa on the calling thread: a quarter of a second at most on
 * any machine of this decade. ATTN_NO_MEMORY leaves them as they were. attn_blas_init comes first.
 */
attn_status attn_machine_calibrate(attn_machine *machine, attn_error *error);

#endif
