/* Quoting for sentences. Errors go to logs, terminals and JSON answers, so a stranger's bytes are
 * reduced to what is harmless in all three. */
#include "attn/quote.h"

#include <stdbool.h>
#include <string.h>

static bool is_printable(char c)
{
    return c >= ' ' && c <= '~';
}

void attn_quote(char *to, size_t size, const char *text, size_t length)
{
    size_t room = size - ATTN_QUOTE_MIN;
    size_t shown = length < room ? length : room;
    *to++ = '"';
    for (size_t i = 0; i < shown; i++)
        *to++ = is_printable(text[i]) ? text[i] : '?';
    strcpy(to, shown < length ? "...\"" : "\"");
}

void attn_quote_end(char *to, size_t size, const char *text)
{
    size_t length = strlen(text), room = size - 1;
    const char *from = text;
    if (length > room) {
        to = stpcpy(to, "...");
        from = text + length - (room - 3);
    }
    for (; *from; from++)
        *to++ = is_printable(*from) ? *from : '?';
    *to = '\0';
}
