/* How far the backends of each model were from exact attention in recent requests, so that an error
 * bound need not try anew what always exceeds it. Any thread. */
#ifndef SERVER_EXPERIENCE_H
#define SERVER_EXPERIENCE_H

#include <pthread.h>
#include <stdbool.h>

enum {
    SRV_EXPERIENCE_MODEL = 129, /* bytes of a model's name with its NUL */
    SRV_EXPERIENCES = 256       /* pairs of model and backend; those beyond are not remembered */
};

typedef struct srv_experience_entry {
    char model[SRV_EXPERIENCE_MODEL];
    const char *backend; /* static */
    double average;      /* relative L2, exponential */
    int samples;         /* up to where it counts as known */
    double limit;        /* a smaller bound is hopeless; it trails the average */
    int passed_over;     /* how often since it was last tried */
} srv_experience_entry;

typedef struct srv_experience {
    pthread_mutex_t lock;
    int count;
    srv_experience_entry entries[SRV_EXPERIENCES];
} srv_experience;

void srv_experience_open(srv_experience *experience);
void srv_experience_close(srv_experience *experience);

/* A request measured this distance. */
void srv_experience_note(srv_experience *experience, const char *model, const char *backend,
                         double relative_l2);

/* Whether trying that backend under this bound is a waste: its average was well beyond the bound
 * and is not yet well within it. Now and then it is tried all the same, since what is never tried
 * never improves. With `only_looking` nothing is remembered. */
bool srv_experience_is_hopeless(srv_experience *experience, const char *model, const char *backend,
                                double bound, bool only_looking);

#endif
