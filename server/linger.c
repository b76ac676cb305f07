/* One lingering socket: a poll that reads and drops, a timer that gives up. */
#include "server/linger.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LONGEST_MS = 5000
};

struct srv_linger {
    srv_lingers *list;
    srv_linger *previous, *next;
    uv_poll_t poll;
    uv_timer_t timer;
    int fd, open_handles;
    int64_t left_bytes;
};

static void on_closed(uv_handle_t *handle)
{
    srv_linger *linger = handle->data;
    if (--linger->open_handles > 0)
        return;
    close(linger->fd);
    free(linger);
}

static void end(srv_linger *linger)
{
    *(linger->previous ? &linger->previous->next : &linger->list->first) = linger->next;
    if (linger->next)
        linger->next->previous = linger->previous;
    uv_close((uv_handle_t *)&linger->poll, on_closed);
    uv_close((uv_handle_t *)&linger->timer, on_closed);
}

static void on_timer(uv_timer_t *timer)
{
    end(timer->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    srv_linger *linger = poll->data;
    char dropped[16 << 10];
    (void)events;
    ssize_t got = status < 0 ? 0 : recv(linger->fd, dropped, sizeof dropped, MSG_DONTWAIT);
    linger->left_bytes -= got;
    if (got <= 0 || linger->left_bytes <= 0)
        end(linger);
}

static void start(srv_linger *linger, srv_lingers *list, uv_loop_t *uv)
{
    uv_timer_init(uv, &linger->timer);
    linger->poll.data = linger->timer.data = linger;
    linger->open_handles = 2;
    linger->list = list;
    linger->next = list->first;
    if (list->first)
        list->first->previous = linger;
    list->first = linger;
    uv_poll_start(&linger->poll, UV_READABLE, on_readable);
    uv_timer_start(&linger->timer, on_timer, LONGEST_MS, 0);
}

void srv_lingers_add(srv_lingers *lingers, uv_loop_t *uv, int fd, int64_t most_bytes)
{
    srv_linger *linger = calloc(1, sizeof *linger);
    int copy = dup(fd);
    if (!linger || copy < 0 || uv_poll_init(uv, &linger->poll, copy) != 0) {
        if (copy >= 0)
            close(copy);
        free(linger);
        return;
    }
    linger->fd = copy;
    linger->left_bytes = most_bytes;
    shutdown(copy, SHUT_WR);
    start(linger, lingers, uv);
}

void srv_lingers_end(srv_lingers *lingers)
{
    while (lingers->first)
        end(lingers->first);
}
