#include "server/codec/base64.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum {
    BYTES = 96,
    TEXT = SRV_BASE64_CHARACTERS(BYTES)
};

/* Section 10 of RFC 4648. */
static const char *const vectors[][2] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

static void standard_vectors(void)
{
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const char *plain = vectors[i][0], *text = vectors[i][1];
        char encoded[TEXT];
        size_t length = srv_base64_encode(plain, strlen(plain), encoded);
        CHECK(length == strlen(text) && memcmp(encoded, text, length) == 0, "encode \"%s\"", plain);
        srv_base64 decoder = {0};
        unsigned char decoded[BYTES];
        size_t written, taken = srv_base64_decode(&decoder, text, strlen(text), decoded, &written);
        CHECK(taken == strlen(text) && srv_base64_whole(&decoder), "decode \"%s\"", text);
        CHECK(written == strlen(plain) && memcmp(decoded, plain, written) == 0,
              "decode \"%s\": %zu bytes", text, written);
    }
}

/* Every length, cut in pieces of every size; a piece may write no more than it says. */
static void pieces_join(void)
{
    unsigned char plain[BYTES], decoded[BYTES + 8];
    for (int i = 0; i < BYTES; i++)
        plain[i] = (unsigned char)(i * 167 + 13);
    for (size_t bytes = 0; bytes <= BYTES; bytes++) {
        char text[TEXT];
        size_t length = srv_base64_encode(plain, bytes, text);
        CHECK(length == SRV_BASE64_CHARACTERS(bytes), "%zu bytes: %zu characters", bytes, length);
        for (size_t piece = 1; piece <= length; piece++) {
            srv_base64 decoder = {0};
            size_t total = 0, written;
            for (size_t at = 0; at < length; at += piece) {
                size_t part = length - at < piece ? length - at : piece;
                size_t taken =
                    srv_base64_decode(&decoder, text + at, part, decoded + total, &written);
                CHECK(taken == part && written <= SRV_BASE64_BYTES(part),
                      "%zu bytes, pieces of %zu: %zu taken, %zu written", bytes, piece, taken,
                      written);
                total += written;
            }
            CHECK(total == bytes && memcmp(decoded, plain, bytes) == 0 &&
                      srv_base64_whole(&decoder),
                  "%zu bytes in pieces of %zu: %zu came back", bytes, piece, total);
        }
    }
}

/* The index of the first character refused, or that the end comes too early. */
static void refuses(void)
{
    static const struct {
        const char *text;
        size_t taken;
    } bad[] = {
        {"Zg", 2},    {"Zg=", 3},      {"Z", 1},         {"Zm9vY", 5},   {"=", 0},
        {"Z===", 1},  {"Zg=a", 3},     {"Zh==", 2},      {"Zm9=", 3},    {"Zg==Zg==", 4},
        {"Zg===", 4}, {"Zm9v====", 4}, {"Zm 9v", 2},     {"Zm9v\n", 4},  {"Zm9-", 3},
        {"Zm9_", 3},  {"\xc3\xa9", 0}, {"Zm9vZm9\"", 7}, {"Zm9v\\/", 4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        srv_base64 decoder = {0};
        unsigned char decoded[BYTES];
        size_t written, length = strlen(bad[i].text);
        size_t taken = srv_base64_decode(&decoder, bad[i].text, length, decoded, &written);
        CHECK(taken == bad[i].taken, "\"%s\": %zu taken, expected %zu", bad[i].text, taken,
              bad[i].taken);
        CHECK(taken < length || !srv_base64_whole(&decoder), "\"%s\" is accepted", bad[i].text);
    }
}

/* Of the 256 bytes exactly the alphabet's 64 may stand in a group. */
static void alphabet(void)
{
    int accepted = 0;
    for (int byte = 0; byte < 256; byte++) {
        char text[4] = {'A', 'A', 'A', (char)byte};
        srv_base64 decoder = {0};
        unsigned char decoded[3];
        size_t written;
        if (byte == '=' || srv_base64_decode(&decoder, text, 4, decoded, &written) < 4)
            continue;
        accepted++;
        char again[4];
        srv_base64_encode(decoded, 3, again);
        CHECK(memcmp(again, text, 4) == 0, "byte %d does not come back", byte);
    }
    CHECK(accepted == 64, "%d characters are accepted", accepted);
}

static const test_case cases[] = {
    {"standard vectors", standard_vectors},
    {"pieces join", pieces_join},
    {"refuses", refuses},
    {"alphabet", alphabet},
    {NULL, NULL},
};

int main(void)
{
    return test_main("base64", cases);
}
