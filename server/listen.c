/* "host:port" to a listening socket. */
#include "server/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 511
};

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
static int split(const char *address, char host[256], char port[16])
{
    const char *colon = strrchr(address, ':');
    const char *from = address, *to = colon;
    if (!colon || !is_port(colon + 1))
        return -1;
    if (address[0] == '[') {
        from = address + 1;
        to = colon - 1;
        if (to < from || *to != ']')
            return -1;
    }
    if (to == from || to - from >= 256)
        return -1;
    snprintf(host, 256, "%.*s", (int)(to - from), from);
    snprintf(port, 16, "%s", colon + 1);
    return 0;
}

static int open_socket(const struct addrinfo *info)
{
    int yes = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int cause = errno;
    close(fd);
    errno = cause;
    return -1;
}

int srv_listen(const char *address, const char *key, attn_error *error)
{
    char host[256], port[16];
    if (split(address, host, port) != 0) {
        attn_error_set(error, ATTN_INVALID, key,
                       "%s is \"%.80s\", expected host:port or [ipv6]:port", key, address);
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
        fd = open_socket(info);
    if (fd < 0)
        attn_error_set(error, ATTN_UNSUPPORTED, key,
                       "cannot listen on %.80s: %s; choose another %s", address, strerror(errno),
                       key);
    freeaddrinfo(found);
    return fd;
}
