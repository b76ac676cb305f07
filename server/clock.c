/* One clock for everything that waits, and one for what a thread does. */
#include "server/clock.h"

#include <time.h>

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t srv_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t srv_thread_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}
