/* Base64 by tables: whole groups of four on the fast path, one character at a time around them. */
#include "server/codec/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* One more than the value of a character; 0 stands for every other byte. */
static const unsigned char values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

/* The next character's value, or -1 when it is none. */
static inline int value_of(char character)
{
    return values[(unsigned char)character] - 1;
}

/* Decode whole groups without padding; returns the characters taken. */
static size_t decode_groups(const char *text, size_t length, unsigned char *to)
{
    size_t at = 0;
    for (; length - at >= 4; at += 4, to += 3) {
        int a = value_of(text[at]), b = value_of(text[at + 1]);
        int c = value_of(text[at + 2]), d = value_of(text[at + 3]);
        if ((a | b | c | d) < 0)
            break;
        to[0] = (unsigned char)(a << 2 | b >> 4);
        to[1] = (unsigned char)(b << 4 | c >> 2);
        to[2] = (unsigned char)(c << 6 | d);
    }
    return at;
}

/* Padding may stand third or fourth, and the bits it leaves unused must be zero. */
static bool take_padding(srv_base64 *decoder)
{
    uint32_t spare = decoder->held == 2 ? 15 : 3;
    if (decoder->held < 2 || (decoder->padding == 0 && (decoder->bits & spare)))
        return false;
    decoder->bits <<= 6;
    decoder->held++;
    decoder->padding++;
    return true;
}

static bool take_character(srv_base64 *decoder, char character)
{
    if (decoder->ended)
        return false;
    if (character == '=')
        return take_padding(decoder);
    int value = value_of(character);
    if (value < 0 || decoder->padding)
        return false;
    decoder->bits = decoder->bits << 6 | (uint32_t)value;
    decoder->held++;
    return true;
}

/* Write the group that is full and start the next; returns the bytes written. */
static size_t close_group(srv_base64 *decoder, unsigned char *to)
{
    size_t bytes = 3 - (size_t)decoder->padding;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(decoder->bits >> (16 - 8 * i));
    *decoder = (srv_base64){.ended = decoder->padding > 0};
    return bytes;
}

size_t srv_base64_decode(srv_base64 *decoder, const char *text, size_t length, unsigned char *to,
                         size_t *written)
{
    size_t at = 0, bytes = 0;
    while (at < length) {
        if (decoder->held == 0 && !decoder->ended) {
            size_t taken = decode_groups(text + at, length - at, to + bytes);
            at += taken;
            bytes += taken / 4 * 3;
            if (at == length)
                break;
        }
        if (!take_character(decoder, text[at]))
            break;
        at++;
        if (decoder->held == 4)
            bytes += close_group(decoder, to + bytes);
    }
    *written = bytes;
    return at;
}

bool srv_base64_whole(const srv_base64 *decoder)
{
    return decoder->held == 0;
}

size_t srv_base64_encode(const void *from, size_t bytes, char *to)
{
    const unsigned char *byte = from;
    char *start = to;
    for (; bytes > 0; to += 4) {
        size_t group = bytes < 3 ? bytes : 3;
        uint32_t bits = (uint32_t)byte[0] << 16;
        bits |= group > 1 ? (uint32_t)byte[1] << 8 : 0;
        bits |= group > 2 ? byte[2] : 0;
        to[0] = alphabet[bits >> 18];
        to[1] = alphabet[bits >> 12 & 63];
        to[2] = group > 1 ? alphabet[bits >> 6 & 63] : '=';
        to[3] = group > 2 ? alphabet[bits & 63] : '=';
        byte += group;
        bytes -= group;
    }
    return (size_t)(to - start);
}
