/* Addresses: which are taken, which are refused with what sentence, and who owns a unix socket. */
#include "server/listen.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void check_refused(const char *address, attn_status status, const char *message)
{
    attn_error error = {0};
    int fd = srv_listen(address, "listen", &error);
    CHECK(fd < 0, "\"%s\" is listened on", address);
    if (fd >= 0)
        close(fd);
    CHECK(error.status == status, "\"%s\": status %s, expected %s", address,
          attn_status_name(error.status), attn_status_name(status));
    CHECK(strcmp(error.param, "listen") == 0, "\"%s\": param %s", address, error.param);
    CHECK(strstr(error.message, message) != NULL, "\"%s\": \"%s\", expected \"%s\"", address,
          error.message, message);
}

/* The port that the system gave. */
static int port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return -1;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return address.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&address)->sin_port) : -1;
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

/* Refused by their spelling */

static void what_is_no_address(void)
{
    static const char *const wrong[] = {
        "",
        ":",
        "::",
        "8080",
        ":8080",
        "localhost",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:port",
        "127.0.0.1:65536",
        "127.0.0.1:99999",
        "127.0.0.1:000080",
        "127.0.0.1:4294967376",
        "127.0.0.1:-1",
        "127.0.0.1:+80",
        "127.0.0.1: 80",
        "127.0.0.1:80 ",
        "127.0.0.1:0x50",
        "127.0.0.1:8080/",
        "http://127.0.0.1:8080/",
        "::1",
        "::1:8080",
        "fe80::1:8080",
        "a:b:8080",
        "[::1]",
        "[::1]8080",
        "[::1]:",
        "[::1]:x",
        "[::1:8080",
        "[]:8080",
        "[:8080",
        "]:8080:",
        "[::1]x:8080",
        "unix:",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[120];
        snprintf(message, sizeof message, "listen is \"%s\", expected host:port, [ipv6]:port",
                 wrong[i]);
        check_refused(wrong[i], ATTN_INVALID, message);
    }
}

static void addresses_may_be_any_length(void)
{
    char address[2000];
    for (size_t length = 240; length < sizeof address - 6; length += length < 260 ? 1 : 100) {
        memset(address, 'x', length);
        strcpy(address + length, ":8080");
        attn_error error = {0};
        CHECK(srv_listen(address, "listen", &error) < 0 && error.status == ATTN_INVALID,
              "%zu characters: %s", length, error.message);
    }
    memcpy(address, "unix:", 5);
    check_refused(address, ATTN_UNSUPPORTED, "File name too long");
}

static void hosts_that_do_not_exist(void)
{
    static const char *const wrong[] = {"256.1.1.1:80", "[::g]:80", "[a]b]:80", "a b:80",
                                        "no-such-host.invalid:80"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[80];
        snprintf(message, sizeof message, "listen: %s: ", wrong[i]);
        check_refused(wrong[i], ATTN_INVALID, message);
    }
}

/* Listening */

static void check_listening(const char *address)
{
    attn_error error = {0};
    int fd = srv_listen(address, "listen", &error), listening = 0;
    socklen_t size = sizeof listening;
    CHECK(fd >= 0, "%s: %s", address, error.message);
    if (fd < 0)
        return;
    CHECK(port_of(fd) > 0, "%s: port %d", address, port_of(fd));
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening,
          "%s: not listening", address);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK, "%s: blocks", address);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC, "%s: survives exec", address);
    CHECK(error.status == ATTN_OK, "%s: %s", address, error.message);
    close(fd);
}

static void hosts_are_listened_on(void)
{
    struct addrinfo *found;
    check_listening("127.0.0.1:0");
    check_listening("127.0.0.1:00000");
    check_listening("0.0.0.0:0");
    /* A bare system has no /etc/hosts, and so no such name. */
    if (getaddrinfo("localhost", NULL, NULL, &found) == 0) {
        check_listening("localhost:0");
        freeaddrinfo(found);
    } else {
        printf("SKIP: localhost is no name here\n");
    }
    if (has_ipv6()) {
        check_listening("[::1]:0");
        check_listening("[::]:0");
        check_listening("[0:0:0:0:0:0:0:1]:0");
    } else {
        printf("SKIP: no IPv6 here\n");
    }
}

static void a_port_in_use_is_told(void)
{
    attn_error error = {0};
    char address[40], message[120];
    int fd = srv_listen("127.0.0.1:0", "admin_listen", &error);
    CHECK(fd >= 0, "%s", error.message);
    snprintf(address, sizeof address, "127.0.0.1:%d", port_of(fd));
    snprintf(message, sizeof message,
             "cannot listen on %s: Address already in use; another attnd may be running", address);
    check_refused(address, ATTN_UNSUPPORTED, message);
    close(fd);
    check_listening(address);
}

static void an_address_of_another_machine_is_told(void)
{
    /* 192.0.2.0/24 is set aside for documentation (RFC 5737). */
    check_refused("192.0.2.1:8080", ATTN_UNSUPPORTED,
                  "cannot listen on 192.0.2.1:8080: Cannot assign requested address");
}

/* Connecting */

/* The next client of a listener that does not block, or -1 when none comes. */
static int accept_next(int listener)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    return poll(&ready, 1, 10000) == 1 ? accept(listener, NULL, NULL) : -1;
}

static void check_conversation(const char *address, int listener)
{
    attn_error error = {0};
    char byte = 0;
    int client = srv_connect(address, "URL", &error);
    CHECK(client >= 0, "%s: %s", address, error.message);
    int served = client >= 0 ? accept_next(listener) : -1;
    CHECK(served >= 0, "%s: %s", address, strerror(errno));
    CHECK(!(fcntl(client, F_GETFL) & O_NONBLOCK), "%s: does not block", address);
    CHECK(served >= 0 && send(client, "x", 1, MSG_NOSIGNAL) == 1 && read(served, &byte, 1) == 1 &&
              byte == 'x',
          "%s: a byte is lost", address);
    if (client >= 0)
        close(client);
    if (served >= 0)
        close(served);
}

static void a_connection_reaches_the_listener(void)
{
    attn_error error = {0};
    char address[40];
    int fd = srv_listen("127.0.0.1:0", "listen", &error);
    CHECK(fd >= 0, "%s", error.message);
    snprintf(address, sizeof address, "127.0.0.1:%d", port_of(fd));
    check_conversation(address, fd);
    close(fd);
    CHECK(srv_connect(address, "URL", &error) < 0 && error.status == ATTN_UNSUPPORTED,
          "nobody listens any more");
    CHECK(strstr(error.message, "cannot connect to 127.0.0.1:") &&
              strstr(error.message, "Connection refused"),
          "%s", error.message);
    error = (attn_error){0};
    CHECK(srv_connect("nowhere", "URL", &error) < 0 && strcmp(error.param, "URL") == 0, "%s: %s",
          error.param, error.message);
}

/* Unix sockets */

typedef struct place {
    char folder[40], path[60], address[70];
} place;

static void open_place(place *p)
{
    strcpy(p->folder, "/tmp/test_listen.XXXXXX");
    if (!mkdtemp(p->folder))
        abort();
    snprintf(p->path, sizeof p->path, "%s/s", p->folder);
    snprintf(p->address, sizeof p->address, "unix:%s", p->path);
}

static void close_place(const place *p)
{
    unlink(p->path);
    CHECK(rmdir(p->folder) == 0, "something is left in %s", p->folder);
}

static void a_unix_socket_comes_and_goes(void)
{
    place p;
    attn_error error = {0};
    struct stat file;
    open_place(&p);
    int fd = srv_listen(p.address, "listen", &error);
    CHECK(fd >= 0, "%s", error.message);
    CHECK(stat(p.path, &file) == 0 && S_ISSOCK(file.st_mode), "%s is no socket", p.path);
    check_conversation(p.address, fd);
    check_refused(p.address, ATTN_UNSUPPORTED, "Address already in use");
    close(accept_next(fd)); /* the question whether anybody answers here */
    check_conversation(p.address, fd);
    close(fd);
    srv_unlisten(p.address);
    CHECK(stat(p.path, &file) != 0, "%s is left", p.path);
    close_place(&p);
}

/* Closing a unix socket leaves its file, as a killed daemon does. */
static void a_stale_unix_socket_is_replaced(void)
{
    place p;
    attn_error error = {0};
    open_place(&p);
    for (int i = 0; i < 3; i++) {
        int fd = srv_listen(p.address, "listen", &error);
        CHECK(fd >= 0, "time %d: %s", i, error.message);
        check_conversation(p.address, fd);
        close(fd);
    }
    close_place(&p);
}

static void other_files_are_never_replaced(void)
{
    place p;
    struct stat file;
    open_place(&p);
    int fd = open(p.path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    CHECK(fd >= 0 && write(fd, "precious", 8) == 8, "%s", strerror(errno));
    close(fd);
    check_refused(p.address, ATTN_UNSUPPORTED, "Address already in use");
    CHECK(stat(p.path, &file) == 0 && file.st_size == 8, "the file that was there is gone");
    unlink(p.path);
    CHECK(symlink("/nowhere", p.path) == 0, "%s", strerror(errno));
    check_refused(p.address, ATTN_UNSUPPORTED, "Address already in use");
    CHECK(lstat(p.path, &file) == 0, "the link that was there is gone");
    close_place(&p);
    check_refused(p.address, ATTN_UNSUPPORTED, "No such file or directory");
    check_refused("unix:/", ATTN_UNSUPPORTED, "Address already in use");
}

static void unlistening_a_port_removes_nothing(void)
{
    static const char *const addresses[] = {"127.0.0.1:8080", "[::1]:80", "", "unix:", "unix"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        srv_unlisten(addresses[i]);
    place p;
    open_place(&p);
    int fd = open(p.path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    close(fd);
    srv_unlisten(p.path);
    CHECK(access(p.path, F_OK) == 0, "a path without unix: is no address");
    close_place(&p);
}

static const test_case cases[] = {
    {"what is no address", what_is_no_address},
    {"addresses may be any length", addresses_may_be_any_length},
    {"hosts that do not exist", hosts_that_do_not_exist},
    {"hosts are listened on", hosts_are_listened_on},
    {"a port in use is told", a_port_in_use_is_told},
    {"an address of another machine is told", an_address_of_another_machine_is_told},
    {"a connection reaches the listener", a_connection_reaches_the_listener},
    {"a unix socket comes and goes", a_unix_socket_comes_and_goes},
    {"a stale unix socket is replaced", a_stale_unix_socket_is_replaced},
    {"other files are never replaced", other_files_are_never_replaced},
    {"unlistening a port removes nothing", unlistening_a_port_removes_nothing},
    {NULL, NULL},
};

int main(void)
{
    return test_main("listen", cases);
}
