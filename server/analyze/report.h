/* Figures as JSON. */
#ifndef SERVER_ANALYZE_REPORT_H
#define SERVER_ANALYZE_REPORT_H

#include "attn/analysis.h"
#include "server/text.h"

/* Bytes that a head's object has at most. */
double srv_report_head_bound(const attn_analysis *analysis);

/* An entry of "heads". */
void srv_report_head(srv_text *text, const attn_analysis *analysis, const attn_head_report *report);

/* Bytes that an entry of "advice" has at most. */
#define SRV_REPORT_TRIAL_BYTES 256

/* The array "advice". */
void srv_report_advice(srv_text *text, const attn_trial *trials, int count);

#endif
