/* The backends, from the one list in backends.def: what each is called, can do and needs. */
#ifndef ATTN_BACKEND_H
#define ATTN_BACKEND_H

#include <stdbool.h>

typedef enum attn_backend {
#define BACKEND(code, name, parts) ATTN_BACKEND_##code,
#include "attn/backends.def"
#undef BACKEND
    ATTN_BACKENDS /* how many there are */
} attn_backend;

/* What the weights of a layer are made of; bits. */
enum {
    ATTN_PART_ATTENTION = 1 << 0,  /* q_proj, k_proj, v_proj, out_proj */
    ATTN_PART_PROJECTION = 1 << 1, /* Linformer's E, and F where it is another */
    ATTN_PART_MAMBA = 1 << 2,      /* a Mamba block */
};

/* "exact" and so on, in the order of attn_backend; NULL-terminated. */
extern const char *const attn_backend_names[];

/* The backend of that name; false, and *backend as it was, when there is none. */
bool attn_backend_find(const char *name, attn_backend *backend);

/* Its traits (attn/mixer.h): the mixer's, or of one that only models have. */
unsigned attn_backend_traits(attn_backend backend);

/* The parts that it runs on. */
unsigned attn_backend_parts(attn_backend backend);

#endif
