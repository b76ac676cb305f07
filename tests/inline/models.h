/* Models for programs that answer requests inline (serve.h): "l", a layer of every backend with an
 * adapter "a", and "s", a stack of a Mamba, a window and a performer. Both read 4 numbers a
 * position. */
#ifndef TESTS_INLINE_MODELS_H
#define TESTS_INLINE_MODELS_H

#include "server/models/registry.h"

/* Written and loaded by the first call, and gone when the process ends. Ends it without them. */
srv_registry *inline_models(void);

#endif
