/* The answer's account of a decision. */
#include "server/attend/decision.h"

#include <math.h>

static void print_candidate(const attn_candidate *c, srv_text *text)
{
    srv_text_string(text, "{\"backend\": ");
    srv_text_json(text, c->name);
    srv_text_format(text, ", \"eligible\": %s, \"chosen\": %s", c->eligible ? "true" : "false",
                    c->chosen ? "true" : "false");
    if (c->why_not[0]) {
        srv_text_string(text, ", \"why_not\": ");
        srv_text_json(text, c->why_not);
    }
    if (c->eligible) {
        srv_text_string(text, ", \"predicted_ms\": ");
        srv_text_ms(text, c->predicted_ms);
        srv_text_format(text, ", \"predicted_bytes\": %zu", c->predicted_bytes);
    }
    srv_text_format(text, ", \"trained\": %s}", c->trained ? "true" : "false");
}

static void print_tried(const srv_decision *decision, srv_text *text)
{
    for (int i = 0; i < decision->tried_count; i++) {
        const srv_tried *tried = &decision->tried[i];
        srv_text_string(text, i ? ", {\"backend\": " : ", \"tried\": [{\"backend\": ");
        srv_text_json(text, tried->backend);
        srv_text_string(text, ", \"relative_l2\": ");
        if (isfinite(tried->relative_l2))
            srv_text_figure(text, tried->relative_l2);
        else
            srv_text_string(text, "null");
        srv_text_string(text, "}");
    }
    if (decision->tried_count)
        srv_text_string(text, "]");
}

void srv_decision_print(const srv_decision *decision, srv_text *text)
{
    srv_text_string(text, "{\"policy\": ");
    srv_text_json(text, attn_policy_name(decision->policy));
    srv_text_string(text, ", \"rule\": ");
    srv_text_json(text, decision->choice.rule);
    srv_text_string(text, ", \"reason\": ");
    srv_text_json(text, decision->choice.reason);
    print_tried(decision, text);
    srv_text_string(text, ", \"considered\": [");
    for (int i = 0; i < decision->candidates.count; i++) {
        if (i > 0)
            srv_text_string(text, ", ");
        print_candidate(&decision->candidates.all[i], text);
    }
    srv_text_string(text, "]}");
}
