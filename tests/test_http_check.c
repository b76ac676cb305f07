/* Framing: everything that two readers of one request could take for different requests. */
#include "server/http_check.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum {
    HEADERS = 4,
    LIMIT = 1000
};

typedef struct header {
    const char *name, *value;
} header;

typedef struct request_head {
    const char *version;
    header headers[HEADERS];
    const char *param; /* the header at fault; NULL: accepted */
    const char *message;
} request_head;

static srv_framing note_all(const request_head *head)
{
    srv_framing framing = {0};
    for (int i = 0; i < HEADERS && head->headers[i].name; i++)
        srv_framing_note(&framing, head->headers[i].name, head->headers[i].value);
    return framing;
}

static const char *print_head(const request_head *head)
{
    static char text[512];
    int used = snprintf(text, sizeof text, "%s", head->version);
    for (int i = 0; i < HEADERS && head->headers[i].name; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " | %s: %.60s",
                         head->headers[i].name, head->headers[i].value);
    return text;
}

static void check_head(const request_head *head, srv_problem_id id)
{
    srv_framing framing = note_all(head);
    srv_problem problem = {0};
    bool accepted = srv_framing_check(&framing, head->version, LIMIT, &problem);
    CHECK(accepted == !head->param, "%s: %s", print_head(head),
          accepted ? "accepted" : problem.message);
    if (accepted || !head->param)
        return;
    CHECK(problem.id == id, "%s: %s", print_head(head), srv_problem_type(problem.id));
    CHECK(strcmp(problem.param, head->param) == 0, "%s: param %s", print_head(head), problem.param);
    CHECK(strstr(problem.message, head->message) != NULL, "%s: \"%s\", expected \"%s\"",
          print_head(head), problem.message, head->message);
}

#define HOST        \
    {               \
        "Host", "a" \
    }
#define CHUNKED                        \
    {                                  \
        "Transfer-Encoding", "chunked" \
    }
#define TWO     "found more than one"
#define BESIDE  "found beside Content-Length"
#define NOTHING "expected nothing but \"chunked\""

static void ordinary_requests_pass(void)
{
    static const request_head list[] = {
        {"HTTP/1.1", {HOST}, NULL, NULL},
        {"HTTP/1.1", {{"hOST", "a"}}, NULL, NULL},
        {"HTTP/1.1", {{"Host", ""}}, NULL, NULL},
        {"HTTP/1.0", {{"Accept", "*/*"}}, NULL, NULL},
        {"HTTP/1.0", {{"Content-Length", "5"}}, NULL, NULL},
        {"HTTP/1.0", {HOST, {"Content-Length", "5"}}, NULL, NULL},
        {"HTTP/1.1", {HOST, {"content-length", "0"}}, NULL, NULL},
        {"HTTP/1.1", {{"CONTENT-LENGTH", "999"}, HOST}, NULL, NULL},
        {"HTTP/1.1", {HOST, {"Content-Length", "1000"}}, NULL, NULL},
        {"HTTP/1.1", {HOST, {"Content-Length", "0001000"}}, NULL, NULL},
        {"HTTP/1.1", {HOST, CHUNKED}, NULL, NULL},
        {"HTTP/1.1", {HOST, {"transfer-ENCODING", "Chunked"}}, NULL, NULL},
        {"HTTP/1.1", {HOST, {"Content-Type", "5"}, {"Content-Length2", "x"}}, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_head(&list[i], SRV_PROBLEM_MALFORMED);
}

static void ambiguous_framing_is_refused(void)
{
    static const request_head list[] = {
        {"HTTP/1.1", {HOST, {"Content-Length", "5"}, CHUNKED}, "Transfer-Encoding", BESIDE},
        {"HTTP/1.1", {HOST, CHUNKED, {"Content-Length", "5"}}, "Transfer-Encoding", BESIDE},
        {"HTTP/1.1", {HOST, CHUNKED, {"Content-Length", "0"}}, "Transfer-Encoding", BESIDE},
        {"HTTP/1.1", {HOST, CHUNKED, {"Content-Length", "x"}}, "Transfer-Encoding", BESIDE},
        {"HTTP/1.1",
         {HOST, {"transfer-encoding", "gzip"}, {"content-length", "5"}},
         "Transfer-Encoding",
         BESIDE},
        {"HTTP/1.1",
         {HOST, {"Content-Length", "5"}, {"Content-Length", "5"}},
         "Content-Length",
         TWO},
        {"HTTP/1.1",
         {HOST, {"Content-Length", "5"}, {"content-length", "6"}},
         "Content-Length",
         TWO},
        {"HTTP/1.1",
         {HOST, {"Content-Length", "x"}, {"Content-Length", "6"}},
         "Content-Length",
         TWO},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "gzip"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "identity"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", ""}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "xchunked"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "chunked;a=b"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "chunked, gzip"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "gzip, chunked"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1",
         {HOST,
          {"Transfer-Encoding", "\x0b"
                                "chunked"}},
         "Transfer-Encoding",
         NOTHING},
        {"HTTP/1.1", {HOST, CHUNKED, CHUNKED}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, {"Transfer-Encoding", "gzip"}, CHUNKED}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.1", {HOST, CHUNKED, {"Transfer-Encoding", "gzip"}}, "Transfer-Encoding", NOTHING},
        {"HTTP/1.0", {CHUNKED}, "Transfer-Encoding", "HTTP/1.0"},
        {"HTTP/1.0", {HOST, CHUNKED, {"Content-Length", "5"}}, "Transfer-Encoding", "HTTP/1.0"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_head(&list[i], SRV_PROBLEM_MALFORMED);
}

static void a_host_is_needed_once(void)
{
    static const request_head list[] = {
        {"HTTP/1.1", {{NULL, NULL}}, "Host", "expected exactly one"},
        {"HTTP/1.1", {{"Hosts", "a"}}, "Host", "expected exactly one"},
        {"HTTP/1.1", {HOST, HOST}, "Host", "expected exactly one"},
        {"HTTP/1.1", {HOST, {"host", "b"}}, "Host", "expected exactly one"},
        {"HTTP/1.0", {HOST, {"HOST", "a"}}, "Host", "expected exactly one"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_head(&list[i], SRV_PROBLEM_MALFORMED);
}

static request_head with_length(const char *value, const char *param, const char *message)
{
    return (request_head){"HTTP/1.1", {HOST, {"Content-Length", value}}, param, message};
}

static void lengths_are_plain_numbers(void)
{
    static const char *const wrong[] = {
        "",
        " ",
        "-1",
        "-0",
        "+5",
        " 5",
        "5 ",
        "5\t",
        "\n5",
        "1e3",
        "0x10",
        "5,5",
        "5, 5",
        "5.0",
        "5;",
        "five",
        "\xb2",
        "5\x01",
        "0x",
        "18446744073709551616",
        "99999999999999999999",
        "184467440737095516150",
        "00000000000000000000000000000000000000018446744073709551616",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        request_head head = with_length(wrong[i], "Content-Length", "expected a number of bytes");
        check_head(&head, SRV_PROBLEM_MALFORMED);
        srv_framing framing = note_all(&head);
        CHECK(framing.length == UINT64_MAX, "\"%s\" is taken for %llu", wrong[i],
              (unsigned long long)framing.length);
    }
}

static void lengths_over_the_limit_are_refused(void)
{
    static const char *const over[] = {"1001", "01001", "4294967296", "9223372036854775808",
                                       "18446744073709551614"};
    for (size_t i = 0; i < sizeof over / sizeof *over; i++) {
        request_head head = with_length(over[i], "Content-Length", "over the limit of 1000");
        check_head(&head, SRV_PROBLEM_TOO_LARGE);
    }
    request_head head = with_length("1001", "Content-Length", "1001 bytes");
    check_head(&head, SRV_PROBLEM_TOO_LARGE);
    head.message = "max_body_bytes";
    check_head(&head, SRV_PROBLEM_TOO_LARGE);
}

static void the_limit_itself_is_allowed(void)
{
    static const uint64_t limits[] = {0, 1, 1ULL << 32, 1ULL << 40, UINT64_MAX - 2};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        for (int over = 0; over < 2; over++) {
            char length[24];
            srv_problem problem;
            srv_framing framing = {.hosts = 1};
            snprintf(length, sizeof length, "%llu", (unsigned long long)limits[i] + (over != 0));
            srv_framing_note(&framing, "Content-Length", length);
            CHECK(srv_framing_check(&framing, "HTTP/1.1", limits[i], &problem) == !over,
                  "%s with limit %llu", length, (unsigned long long)limits[i]);
        }
    }
}

static void a_body_is_known_by_its_headers(void)
{
    static const struct {
        header header;
        bool body;
    } list[] = {
        {{"Host", "a"}, false},
        {{"Content-Length", "0"}, false},
        {{"Content-Length", "000"}, false},
        {{"Content-Length", "1"}, true},
        {{"Content-Length", "x"}, true},
        {{"Transfer-Encoding", "chunked"}, true},
        {{"Transfer-Encoding", "gzip"}, true},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        srv_framing framing = {0};
        srv_framing_note(&framing, list[i].header.name, list[i].header.value);
        CHECK(srv_framing_has_body(&framing) == list[i].body, "%s: %s", list[i].header.name,
              list[i].header.value);
    }
}

static const test_case cases[] = {
    {"ordinary requests pass", ordinary_requests_pass},
    {"ambiguous framing is refused", ambiguous_framing_is_refused},
    {"a Host is needed once", a_host_is_needed_once},
    {"lengths are plain numbers", lengths_are_plain_numbers},
    {"lengths over the limit are refused", lengths_over_the_limit_are_refused},
    {"the limit itself is allowed", the_limit_itself_is_allowed},
    {"a body is known by its headers", a_body_is_known_by_its_headers},
    {NULL, NULL},
};

int main(void)
{
    return test_main("http_check", cases);
}
