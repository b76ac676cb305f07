/* config.def as a table of fields. */
#include "model/config_fields.h"

#define SIZE_MOST ATTN_CONFIG_SIZE_MOST
#define SEED_MOST 9007199254740991.0 /* what a double, and so every JSON reader, holds */

static const char *const normalizations[] = {"", "none", "layernorm", "rmsnorm", NULL};
static const char *const activations[] = {"gelu", "relu", "silu", NULL};
static const char *const variants[] = {"official", "article", NULL};
static const char *const discretizations[] = {"euler", "article", NULL};

const attn_field attn_config_fields[] = {
#define FIELD(place, name, kind, type, member, low, high, choices) \
    {place, name, ATTN_FIELD_##kind, offsetof(type, member), low, high, choices},
#define OTHER(place, name) {.where = place, .key = name, .kind = ATTN_FIELD_OTHER},
#include "model/config.def"
#undef FIELD
#undef OTHER
    {.key = NULL}};

/* A member that is not as large as its kind would be overrun. */
#define BYTES_INT    sizeof(int64_t)
#define BYTES_REAL   sizeof(double)
#define BYTES_BOOL   sizeof(bool)
#define BYTES_SWITCH sizeof(int)
#define BYTES_CHOICE sizeof(int)
#define FIELD(place, name, kind, type, member, low, high, choices) \
    _Static_assert(sizeof(((type *)NULL)->member) == BYTES_##kind, name);
#define OTHER(place, name)
#include "model/config.def"
#undef FIELD
#undef OTHER
