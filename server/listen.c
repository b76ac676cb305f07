/* Addresses to sockets. */
#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    BACKLOG = 511
};

static const char unix_prefix[] = "unix:";

/* bind and listen, or connect. */
typedef int take_address(int fd, const struct sockaddr *address, socklen_t length);

static int listen_on(int fd, const struct sockaddr *address, socklen_t length)
{
    int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return bind(fd, address, length) == 0 ? listen(fd, BACKLOG) : -1;
}

static int open_socket(int family, int flags, const struct sockaddr *address, socklen_t length,
                       take_address *take)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd < 0)
        return -1;
    if (take(fd, address, length) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

static bool is_port(const char *text)
{
    int number = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || c - text > 4)
            return false;
        number = number * 10 + (*c - '0');
    }
    return text[0] && number <= 65535;
}

/* "127.0.0.1:8080" or "[::1]:8080" into its two halves. */
static bool split(const char *address, char host[256], char port[16])
{
    const char *colon = strrchr(address, ':');
    const char *from = address, *to = colon;
    if (!colon || !is_port(colon + 1))
        return false;
    if (address[0] == '[') {
        from = address + 1;
        to = colon - 1;
        if (to < from || *to != ']')
            return false;
    } else if (memchr(address, ':', (size_t)(colon - address))) {
        return false; /* "::1:8080" is an IPv6 address itself */
    }
    if (to == from || to - from >= 256)
        return false;
    snprintf(host, 256, "%.*s", (int)(to - from), from);
    snprintf(port, 16, "%s", colon + 1);
    return true;
}

static attn_status wrong_form(const char *address, const char *key, attn_error *error)
{
    return attn_error_set(error, ATTN_INVALID, key,
                          "%s is \"%.80s\", expected host:port, [ipv6]:port or unix:/path", key,
                          address);
}

static int open_host(const char *address, const char *key, int flags, take_address *take,
                     attn_error *error)
{
    char host[256], port[16];
    if (!split(address, host, port)) {
        wrong_form(address, key, error);
        return -1;
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    int fault = getaddrinfo(host, port, &hints, &found);
    if (fault != 0) {
        attn_error_set(error, ATTN_INVALID, key, "%s: %.80s: %s", key, address,
                       gai_strerror(fault));
        return -1;
    }
    int fd = -1;
    for (const struct addrinfo *info = found; info && fd < 0; info = info->ai_next)
        fd = open_socket(info->ai_family, flags, info->ai_addr, info->ai_addrlen, take);
    freeaddrinfo(found);
    return fd;
}

static int open_unix(const char *path, int flags, take_address *take)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    return open_socket(AF_UNIX, flags, (const struct sockaddr *)&address, sizeof address, take);
}

/* A daemon that was killed leaves its file; one that still answers owns it. */
static int listen_unix(const char *path)
{
    int fd = open_unix(path, SOCK_NONBLOCK, listen_on);
    if (fd >= 0 || errno != EADDRINUSE)
        return fd;
    int other = open_unix(path, 0, connect);
    if (other >= 0) {
        close(other);
        errno = EADDRINUSE;
        return -1;
    }
    /* A file of another kind refuses connections too. */
    struct stat file;
    bool stale = errno == ECONNREFUSED && lstat(path, &file) == 0 && S_ISSOCK(file.st_mode);
    if (!stale || unlink(path) != 0) {
        errno = EADDRINUSE;
        return -1;
    }
    return open_unix(path, SOCK_NONBLOCK, listen_on);
}

static const char *unix_path(const char *address)
{
    size_t length = sizeof unix_prefix - 1;
    return strncmp(address, unix_prefix, length) == 0 && address[length] ? address + length : NULL;
}

attn_status srv_listen_check(const char *address, const char *key, attn_error *error)
{
    char host[256], port[16];
    const char *path = unix_path(address);
    bool known = path ? path[0] != '\0' : split(address, host, port);
    return known ? ATTN_OK : wrong_form(address, key, error);
}

int srv_listen(const char *address, const char *key, attn_error *error)
{
    const char *path = unix_path(address);
    int fd = path ? listen_unix(path) : open_host(address, key, SOCK_NONBLOCK, listen_on, error);
    if (fd < 0 && errno == EADDRINUSE && !path)
        attn_error_set(
            error, ATTN_UNSUPPORTED, key,
            "cannot listen on %.80s: %s; another attnd may be running: stop it, or choose "
            "another %s, such as 127.0.0.1:8081",
            address, strerror(errno), key);
    else if (fd < 0)
        attn_error_set(error, ATTN_UNSUPPORTED, key,
                       "cannot listen on %.80s: %s; choose another %s", address, strerror(errno),
                       key);
    return fd;
}

void srv_unlisten(const char *address)
{
    const char *path = unix_path(address);
    if (path)
        unlink(path);
}

int srv_connect(const char *address, const char *key, attn_error *error)
{
    const char *path = unix_path(address);
    int fd = path ? open_unix(path, 0, connect) : open_host(address, key, 0, connect, error);
    if (fd < 0)
        attn_error_set(error, ATTN_UNSUPPORTED, key, "cannot connect to %.80s: %s", address,
                       strerror(errno));
    return fd;
}
