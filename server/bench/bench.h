/* `attnd bench`: how fast each backend is on this machine, for sizes of one's own. */
#ifndef SERVER_BENCH_H
#define SERVER_BENCH_H

/* Run with the arguments after the command, NULL-terminated; the table goes to stdout, progress to
 * stderr. Returns the exit status: 0, 1 when something failed, 2 when an argument is wrong. */
int srv_bench(char *const *arguments);

#endif
