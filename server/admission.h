/* Whether there is room for more work: by count, by predicted time, and by memory. */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/problem.h"
#include "server/server.h"

/* Room in the queue for one more job, by max_queue and max_queue_cost_ms. False, and a 429 with the
 * time until there should be, otherwise. Loop thread. */
bool srv_admit_job(const srv_server *server, srv_problem *problem);

/* The same by predicted time alone, for a job that is about to compute. Background jobs hold nobody
 * up and do not count. Any thread. */
bool srv_admit_cost(const srv_server *server, srv_problem *problem);

/* Room for one more background job, of which few may wait at a time: their bodies and results take
 * memory, and they may wait for long. Any thread. */
bool srv_admit_background(const srv_server *server, srv_problem *problem);

/* A sum of bytes that may be more than any machine has, as a size that can be counted. */
size_t srv_countable_bytes(double bytes);

/* Make a request's share of the memory budget `bytes`. False, and 413 when that can never be, 429
 * when it cannot be now. `what` is what needs them. Any thread. */
bool srv_admit_bytes(srv_server *server, srv_share *share, size_t bytes, const char *what,
                     srv_problem *problem);

#endif
