/* Figures as JSON. */
#ifndef SERVER_ANALYZE_REPORT_H
#define SERVER_ANALYZE_REPORT_H

#include "attn/analysis.h"
#include "server/answer.h"

/* Memory that a head's text takes at most, and that of all the advice. */
double srv_report_head_bound(const attn_analysis *analysis);
double srv_report_advice_bound(int trials);

/* Append a head, an entry of "heads". */
void srv_report_head(srv_text *text, const attn_analysis *analysis, const attn_head_report *report);

/* The whole answer. */
typedef struct srv_report {
    const char *id;
    srv_text *heads; /* (head_count), taken over */
    int64_t head_count;
    const attn_trial *trials;
    int trial_count; /* 0: no advice */
    srv_answer *answer;
} srv_report;

/* Fill the answer. False, and it is empty, when there is no memory. */
bool srv_report_write(const srv_report *report);

#endif
