/* One JSON number to float32 and back.
 *
 * Reading gives what Python's json or jansson would give after narrowing: the IEEE double nearest
 * to the text, rounded to float32. Printing gives the shortest text that is nearer to the value
 * than half the gap to its nearest neighbour: at most 9 digits, and they read back bit for bit.
 * Both assume that the process keeps the "C" locale: strtod reads the hard cases. */
#ifndef SERVER_CODEC_NUMBER_H
#define SERVER_CODEC_NUMBER_H

#include <stddef.h>

#define SRV_NUMBER_MAX     24   /* bytes that printing may touch; the text is at most 16 of them */
#define SRV_NUMBER_LONGEST 4096 /* characters of a number that is read; no double needs 800 */
#define SRV_NUMBER_PADDING 8    /* readable bytes, zero at first, that must follow the text */

typedef enum srv_number {
    SRV_NUMBER_OK,
    SRV_NUMBER_NONE,  /* what stands there is not a JSON number */
    SRV_NUMBER_RANGE, /* it rounds to an infinity in float32 */
    SRV_NUMBER_LONG,  /* more than SRV_NUMBER_LONGEST characters */
} srv_number;

/* Read the number at *text. When OK, *value is set and *text moves to the first byte after it;
 * otherwise both stay. What may follow a number is the caller's to check. */
srv_number srv_number_read(const char **text, float *value);

/* Print `value` at `to`, not terminated; returns the length. JSON has no infinities: "null". */
size_t srv_number_print(float value, char *to);

#endif
