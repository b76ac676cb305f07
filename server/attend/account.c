/* What a request took, beside what was predicted. */
#include "server/attend/stages.h"
#include "server/clock.h"

/* What was predicted is one backend's time, so nothing is said of several. */
static void fill_cost(srv_attend *a)
{
    const srv_forecast *forecast = srv_decision_forecast(&a->decision);
    srv_account_cost *cost = &a->request->account.cost;
    if (a->decision.moves > 0)
        return;
    cost->busy_ns[SRV_STAGE_READ] = (double)a->read_busy_ns;
    cost->busy_ns[SRV_STAGE_COMPUTE] = (double)(a->computed_busy_ns - a->read_busy_ns);
    cost->busy_ns[SRV_STAGE_PRINT] = (double)(a->job.busy_ns - a->computed_busy_ns);
    for (srv_stage s = 0; s < SRV_STAGES; s++) {
        cost->kind[s] =
            srv_forecast_kind(&a->call.transfer, s, srv_decision_chosen(&a->decision)->name);
        cost->rates_ns[s] = forecast->rates_ns[s];
        cost->predicted_ns += forecast->ns[s];
    }
}

void srv_attend_account(srv_attend *a)
{
    srv_account *account = &a->request->account;
    int64_t now = srv_now_ns();
    account->encoding = srv_format_name(a->request->format);
    account->answer_encoding = srv_format_name(a->request->wanted);
    account->backend = srv_decision_chosen(&a->decision)->name;
    account->rule = a->decision.choice.rule;
    account->n = a->call.longest;
    account->parse_s = (double)(a->read_ns - a->job.started_ns) * 1e-9;
    account->queue_s = (double)(a->job.started_ns - a->submitted_ns) * 1e-9;
    if (a->plan_only)
        return;
    account->tokens = a->call.shape.batch * a->call.shape.n;
    account->compute_s = (double)(a->computed_ns - a->read_ns) * 1e-9;
    account->serialize_s = (double)(now - a->computed_ns) * 1e-9;
    fill_cost(a);
    account->workspace_bytes = a->job.workspace_bytes + a->shared_bytes;
}
