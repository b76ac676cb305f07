/* libmicrohttpd in external epoll mode inside libuv.
 *
 * Its epoll descriptor is polled like any other; before each wait it is asked how long that may be,
 * and after each it is run. A timeout of zero means "run again at once": waiting instead would hang
 * an upload that is already in its buffers. Workers end a job on their own thread, so they put the
 * request on a list and wake the loop; one wake-up may stand for many, hence the list is drained.
 *
 * A suspended connection neither times out nor notices that its client left, so every request with
 * a job has a watch on its socket. */
#include "server/loop.h"

#include "server/clock.h"
#include "server/http.h"
#include "server/linger.h"
#include "server/listen.h"
#include "server/models/registry.h"
#include "server/request.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

enum {
    SWEEP_MS = 1000,
    GRACE_MS = 1000,         /* after drain_timeout_s, for the last answers to leave */
    OTHER_DESCRIPTORS = 256, /* besides those of connections */
    SIGNALS = 3,             /* that are listened to */
};

/* Notices that a waiting request's client leaves. Its own allocation: the handle outlives the
 * request until libuv has closed it. */
typedef struct srv_watch {
    uv_poll_t poll;
    srv_request *request;
} srv_watch;

/* The data port, and the admin port where one is configured. */
typedef struct listener {
    srv_port port;
    const char *address;
    struct MHD_Daemon *daemon;
    uv_poll_t epoll;
} listener;

struct srv_loop {
    srv_server *server;
    listener listeners[2];
    int listener_count;
    bool quiesced; /* nobody listens any more: end when nothing accepted is left */

    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_timer_t pause; /* ends when libmicrohttpd wants to run */
    uv_idle_t again;  /* active when it wants to run at once */
    uv_timer_t drain;
    uv_timer_t sweep; /* of connections that took too long */
    uv_async_t wake;
    uv_signal_t signals[SIGNALS];
    uv_poll_t highest; /* see grow_table */
    srv_lingers lingers;
    srv_request *waiting; /* requests whose job runs */

    pthread_mutex_t lock;
    srv_request *finished; /* guarded by lock */
};

static void on_epoll(uv_poll_t *poll, int status, int events)
{
    (void)poll; /* on_check runs after every wait */
    (void)status;
    (void)events;
}

static void on_pause(uv_timer_t *timer)
{
    (void)timer; /* as above */
}

static void on_again(uv_idle_t *idle)
{
    (void)idle; /* as above */
}

/* How long libmicrohttpd may be left alone: false for as long as nothing happens. */
static bool longest_pause(const srv_loop *loop, uint64_t *ms)
{
    bool limited = false;
    for (int i = 0; i < loop->listener_count; i++) {
        MHD_UNSIGNED_LONG_LONG timeout;
        if (MHD_get_timeout(loop->listeners[i].daemon, &timeout) != MHD_YES)
            continue;
        *ms = limited && *ms < timeout ? *ms : timeout;
        limited = true;
    }
    return limited;
}

static void on_prepare(uv_prepare_t *prepare)
{
    srv_loop *loop = prepare->data;
    uint64_t ms;
    uv_timer_stop(&loop->pause);
    uv_idle_stop(&loop->again);
    if (!longest_pause(loop, &ms))
        return;
    if (ms == 0)
        uv_idle_start(&loop->again, on_again);
    else
        uv_timer_start(&loop->pause, on_pause, ms, 0);
}

static bool is_drained(const srv_loop *loop)
{
    return loop->quiesced && loop->server->accepted == 0;
}

static void end_if_drained(srv_loop *loop)
{
    if (is_drained(loop))
        uv_stop(&loop->uv);
}

static void on_check(uv_check_t *check)
{
    srv_loop *loop = check->data;
    for (int i = 0; i < loop->listener_count; i++)
        MHD_run(loop->listeners[i].daemon);
    end_if_drained(loop);
}

static void on_sweep(uv_timer_t *timer)
{
    const srv_server *server = ((srv_loop *)timer->data)->server;
    srv_peers_sweep(&server->peers, &server->config, srv_now_ns());
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_disconnect(uv_poll_t *poll, int status, int events)
{
    srv_watch *watch = poll->data;
    srv_request *request = watch->request;
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    request->left = true;
    srv_executor_cancel(request->server->executor, request->job);
}

static void start_watch(srv_loop *loop, srv_request *request, int fd)
{
    srv_watch *watch = calloc(1, sizeof *watch);
    /* Without memory the client's leaving goes unnoticed until the answer is sent. */
    if (!watch || uv_poll_init(&loop->uv, &watch->poll, fd) != 0) {
        free(watch);
        return;
    }
    watch->request = request;
    watch->poll.data = watch;
    request->watch = watch;
    uv_poll_start(&watch->poll, UV_DISCONNECT, on_disconnect);
}

void srv_loop_wait(srv_loop *loop, srv_request *request, int fd)
{
    request->waiting_next = loop->waiting;
    if (loop->waiting)
        loop->waiting->waiting_prev = request;
    loop->waiting = request;
    start_watch(loop, request, fd);
}

static void stop_waiting(srv_loop *loop, srv_request *request)
{
    srv_request *previous = request->waiting_prev, *next = request->waiting_next;
    *(previous ? &previous->waiting_next : &loop->waiting) = next;
    if (next)
        next->waiting_prev = previous;
    if (request->watch)
        uv_close((uv_handle_t *)&request->watch->poll, on_watch_closed);
    request->watch = NULL;
}

void srv_loop_finished(srv_loop *loop, srv_request *request)
{
    pthread_mutex_lock(&loop->lock);
    request->next_finished = loop->finished;
    loop->finished = request;
    /* Inside the lock: once it is released the loop may answer this request, be done, and close. */
    uv_async_send(&loop->wake);
    pthread_mutex_unlock(&loop->lock);
}

static void on_wake(uv_async_t *async)
{
    srv_loop *loop = async->data;
    pthread_mutex_lock(&loop->lock);
    srv_request *request = loop->finished;
    loop->finished = NULL;
    pthread_mutex_unlock(&loop->lock);
    while (request) {
        srv_request *next = request->next_finished;
        stop_waiting(loop, request);
        srv_request_end_work(request);
        srv_http_resume(request);
        request = next;
    }
}

/* Answers have had their last moment too: who still does not read them loses the connection. A job
 * that is ending is waited for, since libmicrohttpd cannot stop beneath a suspended connection. */
static void on_grace_over(uv_timer_t *timer)
{
    srv_loop *loop = timer->data;
    if (loop->waiting)
        uv_timer_start(timer, on_grace_over, GRACE_MS, 0);
    else
        uv_stop(&loop->uv);
}

/* Accepted work has had its time. */
static void on_drain_over(uv_timer_t *timer)
{
    srv_loop *loop = timer->data;
    loop->server->drained = true;
    srv_registry_stop(loop->server->registry);
    for (srv_request *request = loop->waiting; request; request = request->waiting_next) {
        request->drained = true;
        srv_executor_cancel(loop->server->executor, request->job);
    }
    uv_timer_start(timer, on_grace_over, GRACE_MS, 0);
}

static void on_drain_begun(uv_timer_t *timer)
{
    srv_loop *loop = timer->data;
    for (int i = 0; i < loop->listener_count; i++) {
        int fd = MHD_quiesce_daemon(loop->listeners[i].daemon);
        if (fd >= 0)
            close(fd);
        srv_unlisten(loop->listeners[i].address);
    }
    loop->quiesced = true;
    /* With nothing left to do no event will come, and so no on_check. */
    end_if_drained(loop);
    uv_timer_start(timer, on_drain_over, (uint64_t)loop->server->config.drain_timeout_s * 1000, 0);
}

static void on_signal(uv_signal_t *handle, int number)
{
    srv_loop *loop = handle->data;
    /* Everything is answered: a late second signal must not turn that into a failure. */
    if (is_drained(loop))
        return;
    if (loop->server->draining)
        _exit(EXIT_FAILURE);
    loop->server->draining = true;
    srv_log_event(&loop->server->log, SRV_LOG_INFO, "draining",
                  (srv_log_field[]){srv_log_int("signal", number),
                                    srv_log_int("accepted", loop->server->accepted)},
                  2);
    uv_timer_start(&loop->drain, on_drain_begun,
                   (uint64_t)loop->server->config.drain_delay_s * 1000, 0);
}

static void on_hangup(uv_signal_t *handle, int number)
{
    srv_server *server = ((srv_loop *)handle->data)->server;
    (void)number;
    if (!server->draining)
        srv_registry_rescan(server->registry);
}

static const struct {
    int number;
    uv_signal_cb handler;
} signals[SIGNALS] = {{SIGTERM, on_signal}, {SIGINT, on_signal}, {SIGHUP, on_hangup}};

static void open_handles(srv_loop *loop)
{
    uv_prepare_init(&loop->uv, &loop->prepare);
    uv_check_init(&loop->uv, &loop->check);
    uv_timer_init(&loop->uv, &loop->pause);
    uv_idle_init(&loop->uv, &loop->again);
    uv_timer_init(&loop->uv, &loop->drain);
    uv_timer_init(&loop->uv, &loop->sweep);
    uv_async_init(&loop->uv, &loop->wake, on_wake);
    loop->prepare.data = loop->check.data = loop->drain.data = loop;
    loop->sweep.data = loop->wake.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    uv_timer_start(&loop->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        uv_signal_init(&loop->uv, &loop->signals[i]);
        loop->signals[i].data = loop;
        uv_signal_start(&loop->signals[i], signals[i].handler, signals[i].number);
    }
}

/* libuv keeps a table of descriptors, and ends the process when it cannot grow. So it grows now, by
 * a short poll of the highest that connections and their lingering copies may come to. */
static void grow_table(srv_loop *loop)
{
    struct rlimit limit;
    rlim_t highest = 2 * (rlim_t)loop->server->config.max_connections + OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && highest >= limit.rlim_cur)
        highest = limit.rlim_cur - 1;
    int fd = eventfd(0, EFD_CLOEXEC), copy = fcntl(fd, F_DUPFD_CLOEXEC, (int)highest);
    if (copy >= 0 && uv_poll_init(&loop->uv, &loop->highest, copy) == 0) {
        uv_poll_start(&loop->highest, UV_READABLE, on_epoll);
        uv_close((uv_handle_t *)&loop->highest, NULL);
    }
    if (copy >= 0)
        close(copy);
    if (fd >= 0)
        close(fd);
}

static attn_status open_listener(srv_loop *loop, const char *address, const char *key, bool admin,
                                 attn_error *error)
{
    listener *l = &loop->listeners[loop->listener_count];
    *l = (listener){.port = {loop->server, admin}, .address = address};
    int fd = srv_listen(address, key, error);
    if (fd < 0)
        return error->status;
    l->daemon = srv_http_open(&l->port, fd, error);
    if (!l->daemon) {
        close(fd);
        srv_unlisten(address);
        return error->status;
    }
    int epoll_fd = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    uv_poll_init(&loop->uv, &l->epoll, epoll_fd);
    uv_poll_start(&l->epoll, UV_READABLE, on_epoll);
    loop->listener_count++;
    return ATTN_OK;
}

attn_status srv_loop_open(srv_server *server, attn_error *error)
{
    srv_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory for the event loop");
    if (uv_loop_init(&loop->uv) != 0) {
        free(loop);
        return attn_error_set(error, ATTN_INTERNAL, NULL, "the event loop does not start");
    }
    loop->server = server;
    server->loop = loop;
    pthread_mutex_init(&loop->lock, NULL);
    open_handles(loop);
    grow_table(loop);
    const srv_config *config = &server->config;
    attn_status status = open_listener(loop, config->listen, "listen", false, error);
    if (status == ATTN_OK && config->admin_listen[0])
        status = open_listener(loop, config->admin_listen, "admin_listen", true, error);
    return status;
}

void srv_loop_run(srv_loop *loop)
{
    uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void srv_loop_linger(srv_loop *loop, int fd)
{
    srv_lingers_add(&loop->lingers, &loop->uv, fd, loop->server->config.max_discard_bytes);
}

/* Without a handle libuv gives a signal back its default, which is to end the process. Blocking it
 * would not do: OpenBLAS has threads of its own. */
static void close_signals(srv_loop *loop)
{
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        uv_close((uv_handle_t *)&loop->signals[i], NULL);
        signal(signals[i].number, SIG_IGN);
    }
}

void srv_loop_close(srv_loop *loop)
{
    if (!loop)
        return;
    uv_handle_t *handles[] = {(uv_handle_t *)&loop->sweep, (uv_handle_t *)&loop->prepare,
                              (uv_handle_t *)&loop->check, (uv_handle_t *)&loop->pause,
                              (uv_handle_t *)&loop->again, (uv_handle_t *)&loop->drain,
                              (uv_handle_t *)&loop->wake};
    close_signals(loop);
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++)
        uv_close(handles[i], NULL);
    for (int i = 0; i < loop->listener_count; i++) {
        uv_close((uv_handle_t *)&loop->listeners[i].epoll, NULL);
        MHD_stop_daemon(loop->listeners[i].daemon);
        if (!loop->quiesced) /* else its file may be a successor's by now */
            srv_unlisten(loop->listeners[i].address);
    }
    srv_lingers_end(&loop->lingers);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop->uv) != 0)
        srv_log_event(&loop->server->log, SRV_LOG_ERROR, "the event loop still had handles", NULL,
                      0);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}
