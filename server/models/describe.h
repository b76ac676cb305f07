/* A model as GET /v1/models shows it. */
#ifndef SERVER_MODELS_DESCRIBE_H
#define SERVER_MODELS_DESCRIBE_H

#include "server/models/registry.h"
#include "server/text.h"

/* Append a JSON object: name, state and reason, and of a model that is READY its sizes, backends,
 * adapters, bytes and warnings. */
void srv_model_describe(srv_text *text, const srv_model_status *status);

#endif
