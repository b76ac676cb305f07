/* Running averages behind one lock: a request looks at a handful of entries, once. */
#include "server/experience.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ENOUGH = 4,    /* samples before an average is believed */
    TRY_AGAIN = 16 /* what was passed over so often is tried once */
};
/* The newest sample's weight; and how far beyond a bound an average must be to be hopeless, and
 * within it to be no longer, so that one near it does not flap. */
#define WEIGHT 0.2
#define BEYOND 1.25
#define WITHIN 0.8

void srv_experience_open(srv_experience *experience)
{
    experience->count = 0;
    pthread_mutex_init(&experience->lock, NULL);
}

void srv_experience_close(srv_experience *experience)
{
    pthread_mutex_destroy(&experience->lock);
}

/* Lock held. NULL: nothing is known. */
static srv_experience_entry *find(srv_experience *experience, const char *model,
                                  const char *backend)
{
    for (int i = 0; i < experience->count; i++) {
        srv_experience_entry *e = &experience->entries[i];
        if (strcmp(e->model, model) == 0 && strcmp(e->backend, backend) == 0)
            return e;
    }
    return NULL;
}

static srv_experience_entry *add(srv_experience *experience, const char *model, const char *backend)
{
    if (experience->count == SRV_EXPERIENCES)
        return NULL;
    srv_experience_entry *e = &experience->entries[experience->count++];
    *e = (srv_experience_entry){.backend = backend};
    snprintf(e->model, sizeof e->model, "%s", model);
    return e;
}

/* Requests differ in their bounds, so what is remembered is no verdict but the limit between the
 * verdicts. It stays where it is while the average is near it. */
static void move_limit(srv_experience_entry *e)
{
    if (e->limit < e->average / BEYOND)
        e->limit = e->average / BEYOND;
    if (e->limit > e->average / WITHIN)
        e->limit = e->average / WITHIN;
}

void srv_experience_note(srv_experience *experience, const char *model, const char *backend,
                         double relative_l2)
{
    if (!isfinite(relative_l2))
        return;
    pthread_mutex_lock(&experience->lock);
    srv_experience_entry *e = find(experience, model, backend);
    e = e ? e : add(experience, model, backend);
    if (e) {
        double weight = e->samples ? WEIGHT : 1;
        e->average += weight * (relative_l2 - e->average);
        e->samples += e->samples < ENOUGH;
        move_limit(e);
        e->passed_over = 0;
    }
    pthread_mutex_unlock(&experience->lock);
}

bool srv_experience_is_hopeless(srv_experience *experience, const char *model, const char *backend,
                                double bound, bool only_looking)
{
    pthread_mutex_lock(&experience->lock);
    srv_experience_entry *e = find(experience, model, backend);
    bool hopeless = e && e->samples == ENOUGH && bound < e->limit;
    bool due = hopeless && e->passed_over >= TRY_AGAIN;
    if (hopeless && !only_looking)
        e->passed_over = due ? 0 : e->passed_over + 1;
    pthread_mutex_unlock(&experience->lock);
    return hopeless && !due;
}
