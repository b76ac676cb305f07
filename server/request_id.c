/* Request ids and trace ids. A client's id goes into headers and log lines as it is, so the
 * alphabet is strict: nothing in it needs escaping anywhere. */
#include "server/request_id.h"

#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define LOWER_HEX "0123456789abcdef"

static const char id_characters[] = "0123456789"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "abcdefghijklmnopqrstuvwxyz"
                                    "._-";

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void srv_unique_bytes(unsigned char bytes[SRV_UNIQUE_BYTES])
{
    /* Waiting for the clock to move makes the time this thread's own, with no counter to keep. */
    uint64_t before_ns = clock_ns(CLOCK_MONOTONIC), now_ns;
    do
        now_ns = clock_ns(CLOCK_MONOTONIC);
    while (now_ns == before_ns);
    uint32_t thread = (uint32_t)gettid();
    uint32_t real_s = (uint32_t)time(NULL);
    memcpy(bytes, &now_ns, 8);
    memcpy(bytes + 8, &thread, 4);
    memcpy(bytes + 12, &real_s, 4);
}

static void make_fresh(srv_request_id *id)
{
    unsigned char bytes[SRV_UNIQUE_BYTES];
    if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != (ssize_t)sizeof bytes)
        srv_unique_bytes(bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        id->text[2 * i] = LOWER_HEX[bytes[i] >> 4];
        id->text[2 * i + 1] = LOWER_HEX[bytes[i] & 15];
    }
    id->text[2 * sizeof bytes] = '\0';
}

void srv_request_id_set(srv_request_id *id, const char *header)
{
    size_t length = header ? strspn(header, id_characters) : 0;
    if (length == 0 || length > SRV_REQUEST_ID_MAX || header[length] != '\0')
        make_fresh(id);
    else
        memcpy(id->text, header, length + 1);
}

/* True when `from` starts with exactly `digits` lowercase hex digits. */
static bool is_hex(const char *from, size_t digits)
{
    return strspn(from, LOWER_HEX) == digits;
}

/* Copy an id that must not be all zeros. */
static bool take_id(const char *from, size_t digits, char *to)
{
    if (!is_hex(from, digits) || strspn(from, "0") == digits)
        return false;
    memcpy(to, from, digits);
    to[digits] = '\0';
    return true;
}

/* Where the parts of vv-<trace>-<parent>-ff begin, and where version 00 ends. */
enum {
    VERSION = 0,
    TRACE = 3,
    PARENT = 36,
    FLAGS = 53,
    END = 55
};

/* Dashes, version and flags are as they must be. A later version may go on after another dash. */
static bool has_frame(const char *header)
{
    if (strlen(header) < END || header[TRACE - 1] != '-' || header[PARENT - 1] != '-' ||
        header[FLAGS - 1] != '-')
        return false;
    if (!is_hex(header + VERSION, 2) || strncmp(header, "ff", 2) == 0 || !is_hex(header + FLAGS, 2))
        return false;
    bool may_go_on = strncmp(header, "00", 2) != 0;
    return header[END] == '\0' || (may_go_on && header[END] == '-');
}

bool srv_trace_parse(srv_trace *trace, const char *header)
{
    *trace = (srv_trace){.trace_id = ""};
    if (header && has_frame(header) && take_id(header + TRACE, 32, trace->trace_id) &&
        take_id(header + PARENT, 16, trace->parent_id))
        return true;
    *trace = (srv_trace){.trace_id = ""};
    return false;
}
