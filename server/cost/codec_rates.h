/* Measuring what reading and printing take. */
#ifndef SERVER_COST_CODEC_RATES_H
#define SERVER_COST_CODEC_RATES_H

#include "server/cost/rates.h"

/* Fill the rates of reading and printing; ATTN_NO_MEMORY. */
attn_status srv_codec_rates_measure(srv_rates *rates, srv_executor *executor);

#endif
