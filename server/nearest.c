/* Edit distance (Wagner and Fischer 1974), one row at a time. */
#include "server/nearest.h"

#include <string.h>

enum {
    LONGEST = 63 /* characters that are compared */
};

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
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
            int substituted = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(row[j] + 1, row[j - 1] + 1, substituted);
        }
    }
    return row[columns];
}

const char *srv_nearest(const char *wrong, const char *(*name_at)(int index))
{
    const char *best = name_at(0);
    for (int i = 1; name_at(i); i++)
        if (distance(wrong, name_at(i)) < distance(wrong, best))
            best = name_at(i);
    return best;
}
