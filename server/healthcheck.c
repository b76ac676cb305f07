/* One request over a plain socket; only the status line of the answer matters. */
#include "server/healthcheck.h"

#include "server/listen.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    TIMEOUT_S = 4
};

static int complain(const char *url, const char *what)
{
    fprintf(stderr, "attnd healthcheck: %s: %s\n", url, what);
    return 1;
}

/* "http://host:port/path" or "unix:/socket:/path" into an address srv_connect takes, and a path. */
static int split(const char *url, char address[256], char path[256])
{
    static const char scheme[] = "http://";
    const char *from = url, *slash;
    if (strncmp(url, scheme, sizeof scheme - 1) == 0) {
        from = url + sizeof scheme - 1;
        slash = strchr(from, '/');
    } else if (strncmp(url, "unix:", 5) == 0) {
        const char *colon = strstr(url + 5, ":/");
        slash = colon ? colon + 1 : NULL;
    } else {
        return -1;
    }
    size_t length = slash ? (size_t)(slash - from) : strlen(from);
    if (from == url && slash)
        length--; /* the colon between socket and path */
    snprintf(path, 256, "%s", slash ? slash : "/");
    snprintf(address, 256, "%.*s", (int)(length < 255 ? length : 255), from);
    if (from != url && !strchr(address, ':'))
        strncat(address, ":80", 255 - strlen(address));
    return 0;
}

int srv_healthcheck(const char *url)
{
    char address[256], path[256], request[512], answer[64] = "";
    attn_error error = {0};
    if (split(url, address, path) != 0)
        return complain(url, "expected http://host:port/path or unix:/socket:/path");
    int fd = srv_connect(address, "URL", &error);
    if (fd < 0)
        return complain(url, error.message);
    const struct timeval limit = {.tv_sec = TIMEOUT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int length = snprintf(request, sizeof request,
                          "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    ssize_t got = -1;
    if (send(fd, request, (size_t)length, MSG_NOSIGNAL) == length)
        got = recv(fd, answer, sizeof answer - 1, MSG_WAITALL);
    close(fd);
    if (got <= 0)
        return complain(url, "no answer in time");
    answer[strcspn(answer, "\r\n")] = '\0';
    if (strncmp(answer, "HTTP/1.1 2", 10) == 0)
        return 0;
    return complain(url, answer);
}
