/* The mixers that exist, for the registry and for each other. */
#ifndef ATTN_MIXERS_H
#define ATTN_MIXERS_H

#include "attn/mixer.h"

#define MIXER(name) extern const attn_mixer attn_mixer_##name;
#include "mixers/mixers.def"
#undef MIXER

#endif
