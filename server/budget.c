/* The reservation counter. */
#include "server/budget.h"

bool srv_share_resize(srv_share *share, srv_budget *budget, size_t bytes)
{
    if (bytes <= share->bytes) {
        atomic_fetch_sub(&budget->reserved, share->bytes - bytes);
        share->bytes = bytes;
        return true;
    }
    size_t more = bytes - share->bytes;
    size_t reserved = atomic_load(&budget->reserved);
    do {
        if (more > budget->limit - reserved)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->reserved, &reserved, reserved + more));
    share->bytes = bytes;
    return true;
}
