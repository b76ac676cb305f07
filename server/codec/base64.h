/* Base64 of RFC 4648, section 4, strictly: padding required, no white space, spare bits zero.
 * Both directions work on pieces, so that no body holds a worker for long. */
#ifndef SERVER_CODEC_BASE64_H
#define SERVER_CODEC_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct srv_base64 {
    uint32_t bits; /* of the open group, first character highest */
    int held;      /* characters of the open group, padding included */
    int padding;   /* '=' seen */
    bool ended;    /* a padded group is complete: nothing may follow */
} srv_base64;      /* all zero is a decoder at the start */

/* Bytes that decoding `length` more characters may write. */
#define SRV_BASE64_BYTES(length) ((length) / 4 * 3 + 3)

/* Characters that encoding `bytes` bytes writes. */
#define SRV_BASE64_CHARACTERS(bytes) (((bytes) + 2) / 3 * 4)

/* Decode a piece and set *written. Returns how many characters were taken: fewer than `length` when
 * the next one does not belong there. */
size_t srv_base64_decode(srv_base64 *decoder, const char *text, size_t length, unsigned char *to,
                         size_t *written);

/* Whether the text may end here. */
bool srv_base64_whole(const srv_base64 *decoder);

/* Encode, with padding when `bytes` is no multiple of 3; returns the characters written. */
size_t srv_base64_encode(const void *from, size_t bytes, char *to);

#endif
