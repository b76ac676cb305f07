/* The bounded list of warnings. */
#include "model/warnings.h"

#include <stdarg.h>
#include <stdio.h>

void attn_warnings_add(attn_warnings *warnings, const char *format, ...)
{
    if (warnings->count == ATTN_WARNINGS_MAX) {
        warnings->left_out++;
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(warnings->text[warnings->count++], ATTN_WARNING_BYTES, format, args);
    va_end(args);
}
