/* Printing a head and the advice. */
#include "server/analyze/report.h"

enum {
    NUMBER_BYTES = 26,    /* of a double and its comma */
    WINDOW_BYTES = 40,    /* of a window and its mass */
    FIGURES_BYTES = 1024, /* of everything else */
    LISTS = 3,
    TRIAL_BYTES = 256,
    GROWTH = 2, /* a text that grows doubles its room */
};

static int64_t count_of(const attn_analysis *a)
{
    return a->shape.n < a->shape.m ? a->shape.n : a->shape.m;
}

double srv_report_head_bound(const attn_analysis *a)
{
    double bytes = FIGURES_BYTES + LISTS * (double)count_of(a) * NUMBER_BYTES +
                   a->window_count * (double)WINDOW_BYTES;
    return GROWTH * bytes;
}

double srv_report_advice_bound(int trials)
{
    return GROWTH * (double)trials * TRIAL_BYTES;
}

static void print_list(srv_text *text, const char *name, const double *values, int64_t count)
{
    srv_text_format(text, ", \"%s\": [", name);
    for (int64_t i = 0; i < count; i++) {
        srv_text_string(text, i ? ", " : "");
        srv_text_real(text, values[i]);
    }
    srv_text_string(text, "]");
}

static void print_named(srv_text *text, const char *name, double value)
{
    srv_text_format(text, "\"%s\": ", name);
    srv_text_real(text, value);
}

static void print_energies(srv_text *text, const attn_head_report *r)
{
    srv_text_string(text, ", \"k_energy\": {");
    for (int i = 0; i < ATTN_ENERGY_LEVELS; i++) {
        srv_text_string(text, i ? ", \"" : "\"");
        srv_text_real(text, attn_energy_levels[i]);
        srv_text_format(text, "\": %lld", (long long)r->k_energy[i]);
    }
    srv_text_string(text, "}");
}

static void print_entropy(srv_text *text, const attn_head_report *r)
{
    srv_text_string(text, ", \"row_entropy\": {");
    print_named(text, "mean", r->entropy_mean);
    srv_text_string(text, ", ");
    print_named(text, "min", r->entropy_min);
    srv_text_string(text, ", ");
    print_named(text, "max", r->entropy_max);
    srv_text_string(text, "}");
}

static void print_windows(srv_text *text, const attn_analysis *a, const attn_head_report *r)
{
    srv_text_string(text, ", \"window_mass\": {");
    for (int i = 0; i < a->window_count; i++) {
        srv_text_format(text, "%s\"%lld\": ", i ? ", " : "", (long long)a->windows[i]);
        srv_text_real(text, r->window_mass[i]);
    }
    srv_text_string(text, "}");
}

static void print_estimate(srv_text *text, const attn_analysis *a, const attn_head_report *r)
{
    srv_text_format(text, ", \"kernel_estimate\": {\"features\": %lld, ",
                    (long long)a->params.features);
    print_named(text, "relative_frobenius", r->relative_frobenius);
    if (a->why_not[0]) {
        srv_text_string(text, ", \"why_not\": ");
        srv_text_json(text, a->why_not);
    }
    srv_text_string(text, "}");
}

void srv_report_head(srv_text *text, const attn_analysis *a, const attn_head_report *r)
{
    srv_text_format(text,
                    "{\"n\": %lld, \"m\": %lld, \"d\": %lld, \"rank_bound\": %lld, "
                    "\"numerical_rank\": %lld, ",
                    (long long)a->shape.n, (long long)a->shape.m, (long long)a->shape.d,
                    (long long)r->rank_bound, (long long)r->numerical_rank);
    print_named(text, "stable_rank", r->stable_rank);
    print_list(text, "singular_values", r->singular_values, count_of(a));
    print_list(text, "cumulative_energy", r->cumulative_energy, count_of(a));
    print_energies(text, r);
    print_list(text, "score_singular_values", r->score_singular_values, count_of(a));
    print_entropy(text, r);
    print_windows(text, a, r);
    print_estimate(text, a, r);
    srv_text_string(text, "}");
}

/* What else a backend that draws was told, where it is not the default: with all of "params" attend
 * gives the same answer. */
static void print_drawing(srv_text *text, const attn_mix_params *p, bool directions)
{
    if (directions && !p->orthogonal)
        srv_text_string(text, ", \"orthogonal\": false");
    if (directions && p->norm == ATTN_NORM_SQRT)
        srv_text_string(text, ", \"norm\": \"sqrt\"");
    if (p->seed != 0)
        srv_text_format(text, ", \"seed\": %llu", (unsigned long long)p->seed);
}

static void print_params(srv_text *text, const attn_trial *trial)
{
    const attn_mix_params *p = &trial->params;
    switch (trial->varied) {
    case ATTN_VARIED_NOTHING:
        break;
    case ATTN_VARIED_WINDOW:
        srv_text_format(text, "\"window\": %lld", (long long)p->window);
        break;
    case ATTN_VARIED_STRIDE:
        srv_text_format(text, "\"pattern\": \"%s\", \"stride\": %lld",
                        attn_pattern_names[p->pattern], (long long)p->stride);
        if (p->pattern == ATTN_FIXED)
            srv_text_format(text, ", \"summary\": %lld", (long long)p->summary);
        break;
    case ATTN_VARIED_K:
        srv_text_format(text, "\"k\": %lld, \"projection\": \"%s\"", (long long)p->k,
                        attn_projection_names[p->projection]);
        if (p->projection == ATTN_GAUSSIAN)
            print_drawing(text, p, false);
        break;
    case ATTN_VARIED_FEATURES:
        srv_text_format(text, "\"features\": %lld", (long long)p->features);
        if (!p->omega)
            print_drawing(text, p, true);
        break;
    }
}

static void print_advice(srv_text *text, const attn_trial *trials, int count)
{
    srv_text_string(text, "[");
    for (int i = 0; i < count; i++) {
        const attn_trial *trial = &trials[i];
        srv_text_format(text, "%s{\"backend\": \"%s\", \"params\": {", i ? ",\n  " : "",
                        trial->mixer->name);
        print_params(text, trial);
        srv_text_string(text, "}, ");
        srv_text_string(text, "\"relative_l2\": ");
        srv_text_figure(text, trial->relative_l2);
        srv_text_string(text, ", ");
        print_named(text, "predicted_ms", trial->predicted_ms);
        srv_text_string(text, "}");
    }
    srv_text_string(text, "]");
}

bool srv_report_write(const srv_report *report)
{
    srv_answer *answer = report->answer;
    srv_text head = SRV_TEXT_EMPTY, tail = SRV_TEXT_EMPTY;
    srv_text_string(&head, "{\"id\": ");
    srv_text_json(&head, report->id);
    srv_text_string(&head, ",\n \"heads\": [");
    bool whole = srv_answer_add_text(answer, &head);
    for (int64_t h = 0; h < report->head_count; h++) {
        srv_text_string(&report->heads[h], h + 1 < report->head_count ? ",\n  " : "]");
        whole = srv_answer_add_text(answer, &report->heads[h]) && whole;
    }
    if (report->trial_count > 0) {
        srv_text_string(&tail, ",\n \"advice\": ");
        print_advice(&tail, report->trials, report->trial_count);
    }
    srv_text_string(&tail, "}\n");
    whole = srv_answer_add_text(answer, &tail) && whole;
    answer->status = 200;
    answer->content_type = SRV_JSON_TYPE;
    if (!whole)
        srv_answer_free(answer);
    return whole;
}
