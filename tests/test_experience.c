/* What a server remembers of its models' errors: averages, when they make a bound hopeless, and
 * that every verdict is tried again. */
#include "server/experience.h"

#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>

enum {
    ENOUGH = 4,    /* samples before an average is believed */
    TRY_AGAIN = 16 /* what was passed over so often is tried once */
};

static void note_times(srv_experience *e, const char *backend, double error, int times)
{
    for (int i = 0; i < times; i++)
        srv_experience_note(e, "m", backend, error);
}

static bool looks_hopeless(srv_experience *e, const char *backend, double bound)
{
    return srv_experience_is_hopeless(e, "m", backend, bound, true);
}

static void an_average_is_believed_after_some_samples(void)
{
    srv_experience e;
    srv_experience_open(&e);
    CHECK(!looks_hopeless(&e, "window", 0.1), "nothing is known");
    for (int i = 1; i <= ENOUGH; i++) {
        note_times(&e, "window", 1, 1);
        CHECK(looks_hopeless(&e, "window", 0.1) == (i == ENOUGH), "after %d samples", i);
    }
    CHECK(!looks_hopeless(&e, "sparse", 0.1), "another backend");
    CHECK(!srv_experience_is_hopeless(&e, "n", "window", 0.1, true), "another model");
    srv_experience_close(&e);
}

/* The average is a + (1 - w)^k (b - a) after k samples of a on an average of b. */
static void averages_forget(void)
{
    srv_experience e;
    srv_experience_open(&e);
    note_times(&e, "window", 1, ENOUGH);
    double expected = 1;
    for (int k = 0; k < 20; k++) {
        note_times(&e, "window", 0, 1);
        expected *= 0.8;
        CHECK(fabs(e.entries[0].average - expected) < 1e-12, "after %d zeros: %g, expected %g",
              k + 1, e.entries[0].average, expected);
    }
    srv_experience_close(&e);
}

/* Hopeless beyond 1.25 of a bound, and until within 0.8 of it. */
static void a_verdict_near_the_bound_does_not_flap(void)
{
    static const struct {
        double error;
        bool before_high,
            after_high; /* whether 0.1 is hopeless, coming from below and from above */
    } list[] = {{0.079, false, false}, {0.081, false, true}, {0.1, false, true},
                {0.124, false, true},  {0.126, true, true},  {1, true, true}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        srv_experience e;
        srv_experience_open(&e);
        note_times(&e, "window", 0.01, ENOUGH);
        note_times(&e, "window", list[i].error, 200);
        CHECK(looks_hopeless(&e, "window", 0.1) == list[i].before_high, "up to %g", list[i].error);
        note_times(&e, "window", 5, 200);
        note_times(&e, "window", list[i].error, 200);
        CHECK(looks_hopeless(&e, "window", 0.1) == list[i].after_high, "down to %g", list[i].error);
        srv_experience_close(&e);
    }
}

/* A strict request does not spoil a lenient one, nor the other way round. */
static void each_bound_has_its_own_verdict(void)
{
    srv_experience e;
    srv_experience_open(&e);
    note_times(&e, "window", 0.45, ENOUGH);
    for (int i = 0; i < 5; i++) {
        CHECK(srv_experience_is_hopeless(&e, "m", "window", 0.1, false), "0.45 is beyond 0.1");
        CHECK(!srv_experience_is_hopeless(&e, "m", "window", 0.5, false), "0.45 is within 0.5");
    }
    srv_experience_close(&e);
}

static void a_verdict_is_tried_again(void)
{
    srv_experience e;
    srv_experience_open(&e);
    note_times(&e, "window", 1, ENOUGH);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < TRY_AGAIN; i++)
            CHECK(srv_experience_is_hopeless(&e, "m", "window", 0.1, false), "round %d, request %d",
                  round, i);
        CHECK(!looks_hopeless(&e, "window", 0.1) && !looks_hopeless(&e, "window", 0.1),
              "round %d: looking is free", round);
        CHECK(!srv_experience_is_hopeless(&e, "m", "window", 0.1, false), "round %d: due", round);
    }
    /* A sample from elsewhere is a trial too. */
    for (int i = 0; i < TRY_AGAIN; i++)
        srv_experience_is_hopeless(&e, "m", "window", 0.1, false);
    note_times(&e, "window", 1, 1);
    CHECK(srv_experience_is_hopeless(&e, "m", "window", 0.1, false), "just tried");
    srv_experience_close(&e);
}

static void what_is_not_a_number_teaches_nothing(void)
{
    srv_experience e;
    srv_experience_open(&e);
    note_times(&e, "window", NAN, ENOUGH);
    note_times(&e, "window", INFINITY, ENOUGH);
    CHECK(e.count == 0, "%d entries", e.count);
    srv_experience_close(&e);
}

static void a_full_memory_keeps_what_it_has(void)
{
    srv_experience e;
    char name[SRV_EXPERIENCE_MODEL];
    srv_experience_open(&e);
    for (int i = 0; i < SRV_EXPERIENCES + 10; i++) {
        snprintf(name, sizeof name, "model-%d", i);
        for (int k = 0; k < ENOUGH; k++)
            srv_experience_note(&e, name, "window", 1);
        CHECK(srv_experience_is_hopeless(&e, name, "window", 0.1, false) == (i < SRV_EXPERIENCES),
              "%s", name);
    }
    CHECK(e.count == SRV_EXPERIENCES, "%d entries", e.count);
    CHECK(srv_experience_is_hopeless(&e, "model-0", "window", 0.1, true),
          "the first is still known");
    srv_experience_close(&e);
}

enum {
    THREADS = 4,
    NOTES = 2000
};

static void *note_and_ask(void *experience)
{
    static const char *const backends[] = {"window", "sparse", "performer"};
    for (int i = 0; i < NOTES; i++) {
        const char *backend = backends[i % 3];
        srv_experience_note(experience, i % 2 ? "a" : "b", backend, 0.5);
        srv_experience_is_hopeless(experience, "a", backend, 0.1, i % 5 == 0);
    }
    return NULL;
}

static void threads_share_it(void)
{
    srv_experience e;
    pthread_t threads[THREADS];
    int started = 0;
    srv_experience_open(&e);
    while (started < THREADS && pthread_create(&threads[started], NULL, note_and_ask, &e) == 0)
        started++;
    CHECK(started == THREADS, "%d threads started", started);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    CHECK(e.count == 6, "%d entries for two models of three backends", e.count);
    for (int i = 0; i < e.count; i++)
        CHECK(fabs(e.entries[i].average - 0.5) < 1e-12, "average %g", e.entries[i].average);
    srv_experience_close(&e);
}

static const test_case cases[] = {
    {"an average is believed after some samples", an_average_is_believed_after_some_samples},
    {"averages forget", averages_forget},
    {"a verdict near the bound does not flap", a_verdict_near_the_bound_does_not_flap},
    {"each bound has its own verdict", each_bound_has_its_own_verdict},
    {"a verdict is tried again", a_verdict_is_tried_again},
    {"what is not a number teaches nothing", what_is_not_a_number_teaches_nothing},
    {"a full memory keeps what it has", a_full_memory_keeps_what_it_has},
    {"threads share it", threads_share_it},
    {NULL, NULL},
};

int main(void)
{
    return test_main("experience", cases);
}
