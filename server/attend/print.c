/* The output, piece by piece in any order: text where the answer is JSON, and a look at every
 * number in any case. */
#include "attn/dtype.h"
#include "server/attend/stages.h"

static void note_bad(srv_attend *a, long long index)
{
    long long first = atomic_load(&a->first_bad);
    while (index < first && !atomic_compare_exchange_weak(&a->first_bad, &first, index))
        ;
}

attn_status srv_attend_print(srv_attend *a, int64_t piece)
{
    int64_t from = piece * SRV_OUTPUT_PIECE, left = (int64_t)srv_output_count(&a->output) - from;
    size_t count = (size_t)(left < SRV_OUTPUT_PIECE ? left : SRV_OUTPUT_PIECE);
    size_t bad = attn_first_non_finite(a->out + from, count);
    if (bad < count) {
        note_bad(a, from + (long long)bad);
        return ATTN_NON_FINITE;
    }
    if (!a->returns_output || a->request->wanted != SRV_FORMAT_JSON)
        return ATTN_OK;
    srv_part *part = &a->pieces[piece];
    part->data = srv_output_print(&a->output, piece, &part->length);
    return part->data ? ATTN_OK : ATTN_NO_MEMORY;
}

void srv_attend_refuse_non_finite(srv_attend *a)
{
    int64_t index[SRV_RANK_MAX];
    char path[SRV_PATH_MAX];
    srv_tensor_index(index, a->output.dim, a->output.rank, atomic_load(&a->first_bad));
    srv_tensor_path(path, "output", index, a->output.rank);
    srv_attend_refuse(
        a, srv_problem_make(SRV_PROBLEM_NON_FINITE, path,
                            "%s is not finite: products of these %s overflow float32; scale them "
                            "down",
                            path, a->model ? "hidden states and weights" : "q, k and v"));
}
