/* The stand-ins for executor and loop, and the little that http.c does around an endpoint. */
#include "tests/inline/serve.h"

#include "server/admission.h"
#include "server/attend/source.h"
#include "server/clock.h"
#include "server/loop.h"
#include "tests/support/attend.h"

#include <stdlib.h>
#include <string.h>

enum {
    MEMORY_BYTES = 64 << 20, /* of the budget */
};

void __wrap_srv_executor_submit(srv_executor *executor, srv_job *job);
void __real_srv_executor_submit(srv_executor *executor, srv_job *job);
srv_load __wrap_srv_executor_load(srv_executor *executor);
srv_load __real_srv_executor_load(srv_executor *executor);
void __wrap_srv_loop_finished(struct srv_loop *loop, srv_request *request);

/* One phase, its tiles in order, in scratch that is exactly what the job asks for. */
static attn_status run_phase(srv_job *job, const attn_phase *phase)
{
    size_t bytes = attn_arena_round(job->scratch_bytes);
    void *memory = bytes ? aligned_alloc(ATTN_ALIGN, bytes) : NULL;
    attn_status status = bytes && !memory ? ATTN_NO_MEMORY : ATTN_OK;
    for (int64_t tile = 0; tile < phase->tiles && status == ATTN_OK; tile++) {
        attn_arena scratch;
        attn_arena_init(&scratch, memory, bytes);
        status = job->run(job, tile, &scratch);
        if (scratch.peak > job->workspace_bytes)
            job->workspace_bytes = scratch.peak;
    }
    free(memory);
    return status;
}

void __wrap_srv_executor_submit(srv_executor *executor, srv_job *job)
{
    if (executor) {
        __real_srv_executor_submit(executor, job);
        return;
    }
    attn_phase phase;
    job->status = ATTN_OK;
    job->started_ns = srv_now_ns();
    while (job->status == ATTN_OK && job->next(job, &phase))
        job->status = run_phase(job, &phase);
    job->done(job);
}

srv_load __wrap_srv_executor_load(srv_executor *executor)
{
    return executor ? __real_srv_executor_load(executor) : (srv_load){0};
}

void __wrap_srv_loop_finished(struct srv_loop *loop, srv_request *request)
{
    (void)loop; /* whoever submitted the job goes on with the request */
    (void)request;
}

bool inline_open(srv_server *server)
{
    int isa = ATTN_ISA_COUNT - 1;
    while (!attn_kernels_find((attn_isa)isa))
        isa--;
    *server = (srv_server){
        .config = {.short_below = 4096,
                   .long_above = 32768,
                   .analyze_max_n = 64,
                   .max_queue = 1,
                   .max_queue_cost_ms = 1},
        .machine = attend_machine((attn_isa)isa, 0),
        .workers = 1,
        .budget = {.limit = MEMORY_BYTES},
        .metrics = srv_metrics_open(),
    };
    return server->metrics != NULL;
}

void inline_close(srv_server *server)
{
    srv_metrics_close(server->metrics);
}

bool inline_begin(srv_server *server, const inline_call *call, srv_request *request)
{
    size_t lead = srv_source_lead(call->format, call->body, call->body_length);
    *request = (srv_request){
        .server = server,
        .path = "/v1/attend",
        .arrived_ns = srv_now_ns(),
        .format = call->format,
        .wanted = call->wanted,
        .query = call->query,
        .query_count = call->query_count,
        .body_block = malloc(lead + call->body_length + SRV_BODY_PADDING),
        .body_length = call->body_length,
        .body_room = call->body_length,
    };
    request->received_ns = request->arrived_ns;
    srv_request_id_set(&request->id, "inline");
    if (!request->body_block)
        return false;
    request->body = request->body_block + lead;
    if (call->body_length)
        memcpy(request->body, call->body, call->body_length);
    memset(request->body + call->body_length, 0, SRV_BODY_PADDING);
    return true;
}

void inline_answer(const inline_call *call, srv_request *request)
{
    srv_problem problem;
    size_t bytes = srv_source_bound(request->format, request->body_length);
    if (!srv_admit_bytes(request->server, &request->share, bytes, "the body", &problem)) {
        srv_request_refuse(request, problem);
        return;
    }
    call->endpoint(request);
    if (request->job)
        srv_request_end_work(request);
    request->bytes_out = srv_answer_bytes(&request->answer);
}

void inline_end(srv_request *request)
{
    srv_answer_free(&request->answer);
    srv_request_drop_body(request);
    srv_share_resize(&request->share, &request->server->budget, 0);
}

char *inline_body(srv_request *request)
{
    const srv_answer *answer = &request->answer;
    char *body = malloc(request->bytes_out + 1), *to = body;
    for (size_t i = 0; body && i < answer->part_count; i++) {
        memcpy(to, answer->parts[i].data, answer->parts[i].length);
        to += answer->parts[i].length;
    }
    if (to)
        *to = '\0';
    return body;
}
