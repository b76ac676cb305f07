/* Others who compute attention on a CPU, where they are installed. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bench_peer {
    char name[120];
    double full_ms, causal_ms;
} bench_peer;

/* PyTorch, in the Python that ATTND_BENCH_PYTHON names, else python3. False when that Python or its
 * torch is absent. */
bool bench_peer_torch(bench_peer *peer, int threads, int64_t heads, int64_t n, int64_t d,
                      int repetitions);

#endif
