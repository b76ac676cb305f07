/* The clock that deadlines, timers and durations are read off. */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds. */
int64_t srv_now_ns(void);

/* Processor time that the calling thread has had. */
int64_t srv_thread_ns(void);

#endif
