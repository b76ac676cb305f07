/* Edit distance (Wagner and Fischer 1974), one row at a time. */
#include "attn/nearest.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum {
    LONGEST = 63 /* characters that are compared */
};

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static int distance(const char *a, const char *b)
{
    int row[LONGEST + 1], columns = (int)strnlen(b, LONGEST);
    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; a[i - 1] && i <= LONGEST; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int substituted = diagonal + !same(a[i - 1], b[j - 1]);
            diagonal = row[j];
            row[j] = least(row[j] + 1, row[j - 1] + 1, substituted);
        }
    }
    return row[columns];
}

bool attn_nearer(const char *wrong, const char *name, int *least)
{
    size_t a = strnlen(wrong, LONGEST), b = strnlen(name, LONGEST);
    int found = distance(wrong, name);
    if (found >= *least || 2 * (size_t)found > (a > b ? a : b))
        return false;
    *least = found;
    return true;
}

const char *attn_nearest(const char *wrong, const char *(*name_at)(int index))
{
    const char *best = NULL;
    int least = ATTN_NOT_NEAR;
    for (int i = 0; name_at(i); i++)
        if (attn_nearer(wrong, name_at(i), &least))
            best = name_at(i);
    return best;
}
