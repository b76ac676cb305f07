/* What a request to /v1/analyze asks, checked. */
#ifndef SERVER_ANALYZE_QUESTION_H
#define SERVER_ANALYZE_QUESTION_H

#include "attn/analysis.h"
#include "server/attend/call.h"

enum {
    SRV_ANALYZE_TENSORS = 4
};

/* The names of the tensors it may hold. */
extern const char *const srv_analyze_tensors[SRV_ANALYZE_TENSORS];

typedef struct srv_question {
    srv_inputs inputs; /* v is k where none is given */
    srv_call call;
    bool advise;                       /* v is given: measure every backend */
    int64_t windows[ATTN_MAX_WINDOWS]; /* each once */
    int window_count;
} srv_question;

/* `most` bounds n and m. Errors name the tensor or option; srv_question_free ends the question
 * whatever this returns. */
attn_status srv_question_read(srv_question *question, const srv_inputs *inputs,
                              const srv_options *options, int64_t most, attn_error *error);

void srv_question_free(srv_question *question);

#endif
