/* The error of an approximation: when to measure it, what to do with it, how to tell it. */
#ifndef SERVER_ATTEND_ESTIMATE_H
#define SERVER_ATTEND_ESTIMATE_H

#include "server/attend/decision.h"
#include "server/request.h"

/* Read what the request says about errors, and let the configuration's error_sample_rate pick some
 * of the others, by their ids. */
void srv_estimate_plan(srv_call *call, const srv_request *request, const srv_options *options);

/* A program is over: note its deviation in the account, and as experience of a model. */
void srv_estimate_note(const srv_call *call, srv_request *request, const char *backend,
                       attn_deviation deviation);

/* Whether a deviation keeps within what the client allows; one that was not measured does. */
bool srv_estimate_is_allowed(const srv_call *call, attn_deviation deviation);

/* Whether the chosen backend has an error at all: a recurrence, or layer upon layer, approximates
 * nothing. */
bool srv_estimate_exists(const srv_call *call, const attn_candidate *chosen);

/* Append the value of `error_estimate`. */
void srv_estimate_print(const srv_call *call, const attn_candidate *chosen,
                        attn_deviation deviation, srv_text *text);

#endif
