/* Running averages behind one lock: a request looks at a handful of entries, once. */
#include "server/experience.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ENOUGH = 4,    /* samples before an average is believed */
    TRY_AGAIN = 16 /* what was passed over so often is tried once */
};
/* The newest sample's weight; and how far from the bound an average must be to change the verdict,
 * so that one near it does not flap. */
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
        e->passed_over = 0;
    }
    pthread_mutex_unlock(&experience->lock);
}

static bool judge(const srv_experience_entry *e, double bound)
{
    if (e->samples < ENOUGH)
        return false;
    return e->average > (e->hopeless ? WITHIN : BEYOND) * bound;
}

bool srv_experience_is_hopeless(srv_experience *experience, const char *model, const char *backend,
                                double bound, bool only_looking)
{
    pthread_mutex_lock(&experience->lock);
    srv_experience_entry *e = find(experience, model, backend);
    bool hopeless = e && judge(e, bound);
    bool due = hopeless && e->passed_over >= TRY_AGAIN;
    if (e && !only_looking) {
        e->hopeless = hopeless;
        e->passed_over = hopeless && !due ? e->passed_over + 1 : 0;
    }
    pthread_mutex_unlock(&experience->lock);
    return hopeless && !due;
}
