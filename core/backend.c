/* backends.def as tables. */
#include "attn/backend.h"

#include "attn/mixer.h"

#include <string.h>

const char *const attn_backend_names[] = {
#define BACKEND(code, name, parts) name,
#include "attn/backends.def"
#undef BACKEND
    NULL};

bool attn_backend_find(const char *name, attn_backend *backend)
{
    for (int b = 0; b < ATTN_BACKENDS; b++) {
        if (strcmp(attn_backend_names[b], name) == 0) {
            *backend = (attn_backend)b;
            return true;
        }
    }
    return false;
}

unsigned attn_backend_traits(attn_backend backend)
{
    const attn_mixer *mixer = attn_mixer_find(attn_backend_names[backend]);
    return mixer ? mixer->traits : ATTN_CAUSAL | ATTN_NEEDS_WEIGHTS | ATTN_RECURRENT;
}

unsigned attn_backend_parts(attn_backend backend)
{
    static const unsigned parts_of[] = {
#define BACKEND(code, name, parts) parts,
#include "attn/backends.def"
#undef BACKEND
    };
    return parts_of[backend];
}
