/* A stand-in for loaded models: what is tested is who holds them, not what they compute.
 *
 * Taken over by the linker, as in serve.h: attn_model_open, attn_model_close and
 * attn_model_info_of. A folder's config.json holds a whole number, the generation, and every weight
 * of the model is that number; anything else in it is a folder that fails to load. */
#ifndef TESTS_INLINE_MODEL_H
#define TESTS_INLINE_MODEL_H

#include "attn/model.h"

#include <semaphore.h>

/* The generation when all weights agree, -1 when they do not. */
int stand_in_generation(const attn_model *model);

/* Models that are open, and how many ever were opened or failed to. */
int stand_in_open_count(void);
int stand_in_tries(void);

/* From here on opening posts `entered` and then waits for `gate`; NULL and NULL: no more. */
void stand_in_hold(sem_t *entered, sem_t *gate);

#endif
