/* Collecting a body: what was reserved for the length that the headers told is enough, and what is
 * refused on the way is dropped, up to a bound. */
#include "server/attend/source.h"
#include "server/exchange.h"
#include "tests/support/suite.h"

#include <string.h>

static const char text[] = "{\"q\": [[1, 2]], \"k\": [[3, 4]], \"v\": [[5, 6]]}";

enum {
    TEXT = sizeof text - 1,
    PIECE = 7
};

/* A server that takes bodies of `most` bytes and drops as many, in memory for `bytes`. */
static srv_server server_for(int64_t most, size_t bytes)
{
    return (srv_server){.config.max_body_bytes = most,
                        .config.max_discard_bytes = most,
                        .workers = 1,
                        .budget.limit = bytes};
}

static srv_exchange exchange_on(srv_server *server)
{
    return (srv_exchange){.request.server = server, .request.format = SRV_FORMAT_JSON};
}

static void close_exchange(srv_exchange *x)
{
    srv_request_drop_body(&x->request);
    srv_share_resize(&x->request.share, &x->request.server->budget, 0);
    CHECK(atomic_load(&x->request.server->budget.reserved) == 0, "a reservation is left");
}

/* Hand over `size` bytes in pieces; how many were taken before the connection had to end. */
static size_t receive(srv_exchange *x, const char *data, size_t size)
{
    for (size_t at = 0; at < size; at += PIECE)
        if (!srv_exchange_receive(x, data + at, size - at < PIECE ? size - at : PIECE))
            return at;
    return size;
}

static void check_whole(srv_exchange *x, const char *expected, size_t length)
{
    static const char zeros[SRV_BODY_PADDING];
    bool whole = srv_exchange_close_body(x);
    CHECK(whole, "refused: %s", x->late.message);
    if (!whole)
        return;
    CHECK(x->request.body_length == length && memcmp(x->request.body, expected, length) == 0,
          "%zu bytes of %zu, or others", x->request.body_length, length);
    CHECK(memcmp(x->request.body + length, zeros, sizeof zeros) == 0, "the padding is not zero");
}

/* As http.c does it: the bound of the length is reserved before the first byte, and is the limit.
 */
static void test_known_length(void)
{
    size_t bound = srv_source_bound(SRV_FORMAT_JSON, TEXT);
    srv_server server = server_for(TEXT, bound);
    srv_exchange x = exchange_on(&server);
    x.framing.lengths = 1;
    x.framing.length = TEXT;
    CHECK(srv_share_resize(&x.request.share, &server.budget, bound), "the bound is over the limit");
    CHECK(receive(&x, text, TEXT) == TEXT, "the connection ended");
    check_whole(&x, text, TEXT);
    CHECK(x.request.share.bytes == bound, "%zu bytes are reserved, %zu were", x.request.share.bytes,
          bound);
    close_exchange(&x);
}

static void test_chunked(void)
{
    srv_server server = server_for(TEXT, srv_source_bound(SRV_FORMAT_JSON, 2 * TEXT));
    srv_exchange x = exchange_on(&server);
    x.framing.codings = 1;
    CHECK(receive(&x, text, TEXT) == TEXT, "the connection ended");
    check_whole(&x, text, TEXT);
    close_exchange(&x);
}

static void test_empty(void)
{
    srv_server server = server_for(TEXT, srv_source_bound(SRV_FORMAT_JSON, TEXT));
    srv_exchange x = exchange_on(&server);
    x.framing.lengths = 1;
    check_whole(&x, "", 0);
    close_exchange(&x);
}

/* One byte over the limit is refused at the end; twice the limit ends the connection. */
static void test_too_long(void)
{
    srv_server server = server_for(TEXT - 1, srv_source_bound(SRV_FORMAT_JSON, 2 * TEXT));
    srv_exchange x = exchange_on(&server);
    x.framing.codings = 1;
    CHECK(receive(&x, text, TEXT) == TEXT, "the connection ended before the answer");
    CHECK(!srv_exchange_close_body(&x) && x.late.id == SRV_PROBLEM_TOO_LARGE, "%s", x.late.message);
    CHECK(!x.request.body_block && x.request.share.bytes == 0,
          "what was dropped still holds memory");
    CHECK(receive(&x, text, TEXT) < TEXT, "more than max_discard_bytes were dropped");
    close_exchange(&x);
}

/* A body that outgrows the memory is refused with the limit's name, and gives back what it had. */
static void test_no_room(void)
{
    srv_server server = server_for(TEXT, srv_source_bound(SRV_FORMAT_JSON, PIECE));
    srv_exchange x = exchange_on(&server);
    x.framing.codings = 1;
    CHECK(receive(&x, text, TEXT) == TEXT, "the connection ended before the answer");
    CHECK(!srv_exchange_close_body(&x) && strstr(x.late.message, "memory_limit_bytes"), "%s",
          x.late.message);
    CHECK(x.request.share.bytes == 0, "%zu bytes are still reserved", x.request.share.bytes);
    close_exchange(&x);
}

int main(void)
{
    static const test_case cases[] = {
        {"known length", test_known_length}, {"chunked", test_chunked}, {"empty", test_empty},
        {"too long", test_too_long},         {"no room", test_no_room}, {NULL, NULL},
    };
    return test_main("http_body", cases);
}
