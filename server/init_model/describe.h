/* The config.json of an untrained model. */
#ifndef SERVER_INIT_MODEL_DESCRIBE_H
#define SERVER_INIT_MODEL_DESCRIBE_H

#include "server/init_model/options.h"
#include "server/text.h"

/* Append the document. Every backend says that it is not trained. */
void srv_init_describe(srv_text *text, const srv_init_options *options);

#endif
