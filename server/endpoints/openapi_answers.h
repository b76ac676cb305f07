/* The schemas of answers in the OpenAPI document. */
#ifndef SERVER_ENDPOINTS_OPENAPI_ANSWERS_H
#define SERVER_ENDPOINTS_OPENAPI_ANSWERS_H

#include "server/text.h"

/* Append the schema of a type as answers.def and routes.def write it: "Model[]", "number?". */
void srv_openapi_type(srv_text *text, const char *type);

/* Append every schema of answers.def as a member of "schemas", each behind a comma. */
void srv_openapi_answers(srv_text *text);

#endif
