#include "tests/bench/support/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bench_peer_torch(bench_peer *peer, int threads, int64_t heads, int64_t n, int64_t d,
                      int repetitions)
{
    const char *python = getenv("ATTND_BENCH_PYTHON");
    char command[512];
    snprintf(command, sizeof command, "'%s' tests/bench/peer_torch.py %d %lld %lld %lld %d 2>&1",
             python ? python : "python3", threads, (long long)heads, (long long)n, (long long)d,
             repetitions);
    FILE *answer = popen(command, "r");
    if (!answer)
        return false;
    bool named = fgets(peer->name, sizeof peer->name, answer) != NULL;
    peer->name[strcspn(peer->name, "\n")] = '\0';
    bool timed = fscanf(answer, "full %lf causal %lf", &peer->full_ms, &peer->causal_ms) == 2;
    return pclose(answer) == 0 && named && timed;
}
