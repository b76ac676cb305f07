/* Status names and error sentences. */
#include "attn/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *attn_status_name(attn_status status)
{
    switch (status) {
#define STATUS(code, name, meaning) \
    case ATTN_##code:               \
        return name;
#include "attn/status.def"
#undef STATUS
    }
    return "internal";
}

attn_status attn_error_set(attn_error *error, attn_status status, const char *param,
                           const char *format, ...)
{
    if (!error || error->status != ATTN_OK)
        return status;
    error->status = status;
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return status;
}
