/* What a call reads and what it prints, for predicting it. */
#ifndef SERVER_ATTEND_TRANSFER_H
#define SERVER_ATTEND_TRANSFER_H

#include "server/attend/call.h"
#include "server/attend/options.h"
#include "server/request.h"

/* Of a request whose body was read in so many slices. */
srv_transfer srv_transfer_of(const srv_request *request, const srv_inputs *inputs,
                             const srv_call *call, const srv_options *options, int64_t slices);

/* Of a call that is only a shape: float32 tensors as safetensors in and out. */
srv_transfer srv_transfer_of_shape(const srv_call *call);

#endif
