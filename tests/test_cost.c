/* What predictions are made of: the rates measured, saved and read; forecasts out of them; and the
 * corrections that requests teach. */
#include "attn/blas.h"
#include "server/clock.h"
#include "server/cost/calibration.h"
#include "server/cost/forecast.h"
#include "tests/support/folder.h"
#include "tests/support/suite.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key;
    size_t offset;
} rates[] = {
#define RATE(member, fallback, what) {#member, offsetof(srv_calibration, machine.member)},
#include "attn/rates.def"
#undef RATE
#define RATE(member, fallback, what) {#member, offsetof(srv_calibration, server.member)},
#include "server/cost/rates.def"
#undef RATE
};
enum {
    RATES = sizeof rates / sizeof *rates,
    WORKERS = 2,
};

static double *rate_of(srv_calibration *c, int i)
{
    return (double *)(void *)((char *)c + rates[i].offset);
}

static srv_calibration fallbacks(void)
{
    return (srv_calibration){
        .isa = ATTN_ISA_SCALAR, .machine = attn_rates_default(), .server = srv_rates_default()};
}

/* Measuring */

/* Every rate is positive and no absurdity, for every ISA; and the daemon does not start late. The
 * bound is processor time, so that a busy machine does not break it; sanitizers get ten times as
 * long. */
static void test_measured(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    const double most_s = 20;
#else
    const double most_s = 2;
#endif
    attn_error error = {0};
    srv_executor *executor = srv_executor_open(WORKERS, &error);
    CHECK(executor != NULL, "%s", error.message);
    for (attn_isa isa = ATTN_ISA_SCALAR; executor && isa <= ATTN_ISA_AVX512; isa++) {
        attn_machine machine;
        if (attn_machine_probe(&machine, attn_isa_name(isa), &error) != ATTN_OK) {
            printf("SKIP %s: %s\n", attn_isa_name(isa), error.message);
            continue;
        }
        srv_calibration c;
        int64_t begun_ns = srv_thread_ns();
        attn_status status = srv_calibration_measure(&c, &machine, executor, WORKERS, &error);
        double took_s = (double)(srv_thread_ns() - begun_ns) * 1e-9;
        CHECK(status == ATTN_OK && c.isa == isa, "%s: %s", attn_isa_name(isa), error.message);
        CHECK(took_s < most_s, "%s: took %.3f s", attn_isa_name(isa), took_s);
        for (int i = 0; i < RATES; i++)
            CHECK(isfinite(*rate_of(&c, i)) && *rate_of(&c, i) > 0 && *rate_of(&c, i) < 1e8,
                  "%s: %s is %g", attn_isa_name(isa), rates[i].key, *rate_of(&c, i));
    }
    srv_executor_close(executor);
}

/* Saving */

static void test_round_trip(void)
{
    test_folder folder = folder_open();
    char path[128];
    snprintf(path, sizeof path, "%s", folder_path(&folder, "rates.json"));
    srv_calibration saved = fallbacks(), read = {0};
    attn_error error = {0};
    for (int i = 0; i < RATES; i++)
        *rate_of(&saved, i) = 1.0 / (i + 3);
    CHECK(!srv_calibration_exists(path) && !srv_calibration_exists(""), "there is no file yet");
    CHECK(srv_calibration_save(&saved, path, &error) == ATTN_OK, "%s", error.message);
    CHECK(srv_calibration_exists(path), "the file is there");
    CHECK(srv_calibration_read(&read, path, ATTN_ISA_SCALAR, &error) == ATTN_OK, "%s",
          error.message);
    /* Five digits are kept. */
    for (int i = 0; i < RATES; i++)
        CHECK(fabs(*rate_of(&read, i) - *rate_of(&saved, i)) <= 1e-4 * *rate_of(&saved, i),
              "%s: %g came back as %g", rates[i].key, *rate_of(&saved, i), *rate_of(&read, i));
    CHECK(srv_calibration_save(&read, "/proc/nowhere/rates.json", &error) == ATTN_INVALID &&
              strstr(error.message, "/proc/nowhere/rates.json"),
          "%s", error.message);
    folder_close(&folder);
}

/* A saved file with `from`, which stands in it once, replaced. */
static void write_changed(const test_folder *folder, const char *whole, const char *from,
                          const char *to)
{
    char text[4096];
    const char *at = strstr(whole, from);
    CHECK(at != NULL, "no \"%s\" in the file", from);
    if (at)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    folder_text(folder, "bad", at ? text : "");
}

static void test_hostile_files(void)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"draw_ns\": 30", "\"draw_ns\": 0", "draw_ns is 0"},
        {"\"draw_ns\": 30", "\"draw_ns\": -1", "draw_ns is -1"},
        {"\"draw_ns\": 30", "\"draw_ns\": 1e300", "draw_ns is 1e+300, expected nanoseconds"},
        {"\"draw_ns\": 30", "\"draw_ns\": \"quick\"", "draw_ns is quick"},
        {"\"draw_ns\": 30", "\"draw_ns\": true", "draw_ns is true"},
        {"\"draw_ns\": 30", "\"draw_ns\": null", "draw_ns is a list, an object or null"},
        {"\"draw_ns\": 30", "\"draw_ns\": [30]", "draw_ns is a list, an object or null"},
        {"\"draw_ns\": 30", "\"drawn_ns\": 30",
         "unknown key \"drawn_ns\"; the nearest is \"draw_ns\""},
        {"\"draw_ns\": 30", "\"turn_ns\": 30", "duplicate"},
        {",\n  \"draw_ns\": 30", "", "lacks draw_ns"},
        {"\"isa\": \"scalar\"", "\"isa\": \"avx512\"", "isa is \"avx512\", but attnd uses scalar"},
        {"\"isa\": \"scalar\"", "\"isa\": 7", "isa is \"7\""},
        {"\"isa\": \"scalar\",\n", "", "lacks isa"},
        {"{", "[{", "line"},
        {"{", "", "line"},
    };
    test_folder folder = folder_open();
    srv_calibration c = fallbacks();
    srv_text whole = SRV_TEXT_EMPTY;
    char path[128];
    srv_calibration_print(&c, &whole);
    snprintf(path, sizeof path, "%s", folder_path(&folder, "bad"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attn_error error = {0};
        write_changed(&folder, whole.data, cases[i].from, cases[i].to);
        attn_status status = srv_calibration_read(&c, path, ATTN_ISA_SCALAR, &error);
        CHECK(status == ATTN_INVALID && strstr(error.message, cases[i].says) &&
                  strncmp(error.message, path, strlen(path)) == 0,
              "%s: %s: %s", cases[i].to, attn_status_name(status), error.message);
    }
    attn_error error = {0};
    CHECK(srv_calibration_read(&c, folder.path, ATTN_ISA_SCALAR, &error) == ATTN_INVALID &&
              error.message[0],
          "a folder: %s", error.message);
    srv_text_free(&whole);
    folder_close(&folder);
}

/* Forecasts */

static srv_server *server_of(const srv_calibration *c)
{
    srv_server *server = calloc(1, sizeof *server);
    if (!server)
        exit(EXIT_FAILURE);
    server->machine = (attn_machine){.isa = ATTN_ISA_SCALAR, .cores = WORKERS, .rates = c->machine};
    server->workers = WORKERS;
    server->cost.rates = c->server;
    return server;
}

/* Everything that a request can be made of, in moderation. */
static const srv_transfer everything = {.json_in = true,
                                        .json_out = true,
                                        .number_bytes = 1e5,
                                        .base64_bytes = 1e5,
                                        .stored_floats = 1e5,
                                        .converted_floats = 1e4,
                                        .slices = 2,
                                        .out_floats = 1e5,
                                        .number_floats = 5e4,
                                        .base64_floats = 5e4,
                                        .pieces = 4};

static attn_program *program_of(const srv_server *server, const char *mixer, int64_t n, bool causal,
                                attn_projection projection)
{
    const attn_shape shape = {2, 4, 2, n, n, 32, 32};
    attn_program *program = NULL;
    attn_mix_params params;
    attn_error error = {0};
    attn_mix_params_init(&params, shape.d);
    params.mask.causal = causal;
    params.projection = projection;
    params.k = params.features = 64;
    attn_status status = attn_program_attend(&program, &server->machine, attn_mixer_find(mixer),
                                             &params, &shape, &(attn_sampling){8, 1}, &error);
    CHECK(status == ATTN_OK, "%s: %s", mixer, error.message);
    return program;
}

static srv_forecast forecast_of(const srv_calibration *c, const char *mixer, int64_t n, bool causal,
                                attn_projection projection, const srv_transfer *transfer)
{
    srv_server *server = server_of(c);
    attn_program *program = program_of(server, mixer, n, causal, projection);
    srv_forecast f = srv_forecast_make(server, transfer, program, mixer, n);
    attn_program_close(program);
    free(server);
    return f;
}

static double total_ns(const srv_forecast *f)
{
    return f->ns[SRV_STAGE_READ] + f->ns[SRV_STAGE_COMPUTE] + f->ns[SRV_STAGE_PRINT];
}

static void test_grows_with_n(void)
{
    const srv_calibration c = fallbacks();
    for (const attn_mixer *const *m = attn_mixers; *m; m++)
        for (int causal = 0; causal <= (((*m)->traits & ATTN_CAUSAL) != 0); causal++) {
            double before_ns = 0, before_wall_ns = 0;
            for (int64_t n = 1; n <= 1 << 20; n *= 4) {
                srv_forecast f = forecast_of(&c, (*m)->name, n, causal, ATTN_MEAN, &everything);
                CHECK(total_ns(&f) > before_ns && f.wall_ns > before_wall_ns,
                      "%s causal %d n %lld: %g ns, wall %g, after %g and %g", (*m)->name, causal,
                      (long long)n, total_ns(&f), f.wall_ns, before_ns, before_wall_ns);
                before_ns = total_ns(&f);
                before_wall_ns = f.wall_ns;
            }
        }
}

/* Twice a rate never predicts less, in total at most twice as much, and each of the daemon's rates
 * but waking is felt whatever the backend. */
static void test_grows_with_rates(void)
{
    const srv_calibration c = fallbacks();
    const srv_transfer binary = {.stored_floats = 1e5, .slices = 5, .out_floats = 1e5, .pieces = 4};
    for (int i = 0; i < RATES; i++) {
        srv_calibration slower = c;
        bool felt = false;
        *rate_of(&slower, i) *= 2;
        for (const attn_mixer *const *m = attn_mixers; *m; m++)
            for (int ends = 0; ends < 2; ends++) {
                const srv_transfer *t = ends ? &everything : &binary;
                srv_forecast a = forecast_of(&c, (*m)->name, 700, false, ATTN_GAUSSIAN, t);
                srv_forecast b = forecast_of(&slower, (*m)->name, 700, false, ATTN_GAUSSIAN, t);
                double before_ns = total_ns(&a), after_ns = total_ns(&b);
                CHECK(after_ns >= before_ns && after_ns <= 2.000001 * before_ns,
                      "%s of %s: %g ns became %g", rates[i].key, (*m)->name, before_ns, after_ns);
                CHECK(b.wall_ns >= a.wall_ns && b.wall_ns <= 2.000001 * a.wall_ns,
                      "%s of %s: %g ns on the wall became %g", rates[i].key, (*m)->name, a.wall_ns,
                      b.wall_ns);
                felt |= b.wall_ns > a.wall_ns;
            }
        bool is_server = rates[i].offset >= offsetof(srv_calibration, server);
        CHECK(felt || !is_server, "%s changes nothing", rates[i].key);
    }
}

/* Which backend a rate belongs to. */
static void test_rates_are_told_apart(void)
{
    static const struct {
        const char *rate, *mixer;
        bool causal;
        attn_projection projection;
    } used[] = {
        {"draw_ns", "performer", false, ATTN_MEAN},
        {"draw_ns", "linformer", false, ATTN_GAUSSIAN},
        {"turn_ns", "performer", false, ATTN_MEAN},
        {"feature_ns", "performer", false, ATTN_MEAN},
        {"causal_float_ns", "performer", true, ATTN_MEAN},
        {"combine_float_ns", "performer", true, ATTN_MEAN},
        {"product_flop_ns", "performer", false, ATTN_MEAN},
        {"copy_float_ns", "linformer", false, ATTN_MEAN},
    };
    for (int i = 0; i < RATES; i++)
        for (const attn_mixer *const *m = attn_mixers; *m; m++)
            for (size_t u = 0; u < sizeof used / sizeof *used; u++) {
                if (strcmp(rates[i].key, used[u].rate) != 0 ||
                    used[u].causal > (((*m)->traits & ATTN_CAUSAL) != 0))
                    continue;
                srv_calibration c = fallbacks(), slower = c;
                *rate_of(&slower, i) *= 2;
                srv_forecast a = forecast_of(&c, (*m)->name, 700, used[u].causal,
                                             used[u].projection, &everything);
                srv_forecast b = forecast_of(&slower, (*m)->name, 700, used[u].causal,
                                             used[u].projection, &everything);
                bool changes = total_ns(&b) > total_ns(&a), expected = false;
                for (size_t v = 0; v < sizeof used / sizeof *used; v++)
                    expected |= strcmp(used[v].rate, rates[i].key) == 0 &&
                                strcmp(used[v].mixer, (*m)->name) == 0 &&
                                used[v].causal == used[u].causal &&
                                used[v].projection == used[u].projection;
                /* Drawing does not depend on what else is asked for. */
                expected |=
                    strcmp(rates[i].key, "draw_ns") == 0 && strcmp((*m)->name, "performer") == 0;
                CHECK(changes == expected, "%s %s %s", rates[i].key,
                      changes ? "changes" : "does not change", (*m)->name);
            }
}

/* Tiles decide an answer's last bits, so no rate may decide tiles. */
static void test_tiles_do_not_follow_rates(void)
{
    srv_calibration c = fallbacks(), odd = c;
    for (int i = 0; i < RATES; i++)
        *rate_of(&odd, i) *= i % 2 ? 1e3 : 1e-3;
    for (const attn_mixer *const *m = attn_mixers; *m; m++) {
        srv_server *servers[] = {server_of(&c), server_of(&odd)};
        attn_program *programs[2];
        for (int s = 0; s < 2; s++)
            programs[s] = program_of(servers[s], (*m)->name, 3000, false, ATTN_GAUSSIAN);
        CHECK(attn_program_phases(programs[0]) == attn_program_phases(programs[1]), "%s",
              (*m)->name);
        for (int p = 0; p < attn_program_phases(programs[0]); p++)
            CHECK(attn_program_phase(programs[0], p).tiles ==
                      attn_program_phase(programs[1], p).tiles,
                  "%s: phase %d", (*m)->name, p);
        for (int s = 0; s < 2; s++) {
            attn_program_close(programs[s]);
            free(servers[s]);
        }
    }
}

/* More workers never make it longer, and none makes work vanish. */
static void test_workers(void)
{
    srv_calibration c = fallbacks();
    srv_server *server = server_of(&c);
    attn_program *program = program_of(server, "exact", 2000, false, ATTN_MEAN);
    double before_ns = INFINITY;
    for (server->workers = 1; server->workers <= 16; server->workers *= 2) {
        srv_forecast f = srv_forecast_make(server, &everything, program, "exact", 2000);
        CHECK(f.wall_ns <= before_ns, "%d workers: %g ns, fewer %g", server->workers, f.wall_ns,
              before_ns);
        CHECK(f.wall_ns * server->workers >= total_ns(&f) && f.wall_ns >= f.ns[SRV_STAGE_READ],
              "%d workers: %g ns of %g", server->workers, f.wall_ns, total_ns(&f));
        before_ns = f.wall_ns;
    }
    attn_program_close(program);
    free(server);
}

/* Corrections */

static const srv_kind exact = {SRV_STAGE_COMPUTE, "exact", false};

static void test_converges(void)
{
    static const double truths[] = {0.25, 0.5, 0.9, 1, 1.7, 4};
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        srv_correction c = {0};
        double truth = truths[i], away = fabs(truth - 1);
        CHECK(srv_correction_factor(&c, exact, 100) == 1, "not 1 at first");
        /* The n-th average over n + 1 samples, the first of them 1, is 1 / (n + 1) away; from the
         * tenth on it is 0.9 of what it was. */
        for (int n = 1; n <= 60; n++) {
            srv_correction_learn(&c, exact, 100, truth * 5e5, 5e5);
            double factor = srv_correction_factor(&c, exact, 100);
            double most = away * (n < 9 ? 1.0 / (n + 1) : 0.1 * pow(0.9, n - 9));
            CHECK(fabs(factor - truth) <= most + 1e-12, "%g after %d: %g", truth, n, factor);
        }
    }
}

static void test_clamps(void)
{
    srv_correction c = {0};
    for (int i = 0; i < 200; i++)
        srv_correction_learn(&c, exact, 10, 1e15, 1);
    double most = srv_correction_factor(&c, exact, 10);
    CHECK(most <= SRV_CORRECTION_MOST && most > 0.99 * SRV_CORRECTION_MOST, "%g", most);
    for (int i = 0; i < 400; i++)
        srv_correction_learn(&c, exact, 10, 1e-15, 1);
    double least = srv_correction_factor(&c, exact, 10);
    CHECK(least >= SRV_CORRECTION_LEAST && least < 1.01 * SRV_CORRECTION_LEAST, "%g", least);
    static const double nonsense[][2] = {
        {0, 1},   {1, 0},        {-1, 1},       {1, -1}, {NAN, 1},
        {1, NAN}, {INFINITY, 1}, {1, INFINITY}, {0, 0},  {INFINITY, INFINITY}};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        srv_correction_learn(&c, exact, 10, nonsense[i][0], nonsense[i][1]);
        CHECK(srv_correction_factor(&c, exact, 10) == least, "%g of %g was learned", nonsense[i][0],
              nonsense[i][1]);
    }
}

static void test_kinds_and_decades(void)
{
    static const struct {
        int64_t n;
        int decade;
    } edges[] = {{0, 0},   {1, 0},     {9, 0},      {10, 1},      {99, 1},
                 {100, 2}, {99999, 4}, {100000, 5}, {1000000, 6}, {INT64_MAX, 6}};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        CHECK(srv_correction_decade(edges[i].n) == edges[i].decade, "n = %lld is in decade %d",
              (long long)edges[i].n, srv_correction_decade(edges[i].n));
    const srv_kind others[] = {{SRV_STAGE_COMPUTE, "window", false},
                               {SRV_STAGE_COMPUTE, "exact", true},
                               {SRV_STAGE_READ, "exact", false}};
    srv_correction c = {0};
    srv_correction_learn(&c, exact, 150, 3, 1);
    srv_correction_learn(&c, exact, 15000, 7, 2);
    double hundreds = srv_correction_factor(&c, exact, 150);
    double ten_thousands = srv_correction_factor(&c, exact, 15000);
    /* The first average is with what was assumed: 1, and then what hundreds take. */
    CHECK(hundreds == 2 && ten_thousands == 2.75, "%g and %g", hundreds, ten_thousands);
    /* What was not measured takes the nearest, the shorter first. */
    CHECK(srv_correction_factor(&c, exact, 1) == hundreds &&
              srv_correction_factor(&c, exact, 1500) == hundreds &&
              srv_correction_factor(&c, exact, INT64_MAX) == ten_thousands,
          "unmeasured decades");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(srv_correction_factor(&c, others[i], 150) == 1, "kind %zu is not 1", i);
}

static void test_full(void)
{
    static char all[SRV_CORRECTION_KINDS + 3][16];
    srv_correction c = {0};
    for (int i = 0; i < SRV_CORRECTION_KINDS + 3; i++) {
        snprintf(all[i], sizeof all[i], "k%d", i);
        const srv_kind kind = {SRV_STAGE_COMPUTE, all[i], false};
        srv_correction_learn(&c, kind, 100, 3, 1);
        double expected = i < SRV_CORRECTION_KINDS ? 2 : 1;
        CHECK(srv_correction_factor(&c, kind, 100) == expected, "kind %d: %g", i,
              srv_correction_factor(&c, kind, 100));
    }
}

/* Readers beside the writer see nothing but factors within bounds. */
static void *read_factors(void *context)
{
    const srv_correction *c = context;
    for (int i = 0; i < 20000; i++) {
        double factor = srv_correction_factor(c, exact, i % 2000);
        if (!(factor >= SRV_CORRECTION_LEAST && factor <= SRV_CORRECTION_MOST))
            return "a factor out of bounds";
    }
    return NULL;
}

static void test_readers(void)
{
    static srv_correction c;
    pthread_t readers[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&readers[i], NULL, read_factors, &c);
    for (int i = 0; i < 20000; i++) {
        const srv_kind kind = {SRV_STAGE_COMPUTE, i % 3 ? "exact" : "window", i % 2 == 0};
        srv_correction_learn(&c, kind, i % 3000, 1 + i % 7, 3);
    }
    for (int i = 0; i < 3; i++) {
        void *fault;
        pthread_join(readers[i], &fault);
        CHECK(fault == NULL, "%s", (const char *)fault);
    }
}

/* What was learned reaches the forecast, each stage on its own. */
static void test_forecast_is_corrected(void)
{
    srv_calibration c = fallbacks();
    srv_server *server = server_of(&c);
    attn_program *program = program_of(server, "exact", 500, false, ATTN_MEAN);
    srv_forecast before = srv_forecast_make(server, &everything, program, "exact", 500);
    for (srv_stage s = 0; s < SRV_STAGES; s++)
        for (int i = 0; i < 300; i++)
            srv_correction_learn(&server->cost.correction,
                                 srv_forecast_kind(&everything, s, "exact"), 500, 2 + s, 1);
    srv_forecast after = srv_forecast_make(server, &everything, program, "exact", 500);
    for (srv_stage s = 0; s < SRV_STAGES; s++) {
        CHECK(after.rates_ns[s] == before.rates_ns[s] && before.ns[s] == before.rates_ns[s],
              "%s: the rates' part changed", srv_stage_name(s));
        CHECK(fabs(after.ns[s] / before.ns[s] - (2 + s)) < 1e-6, "%s: %g times", srv_stage_name(s),
              after.ns[s] / before.ns[s]);
    }
    CHECK(after.wall_ns > before.wall_ns, "wall %g after %g", after.wall_ns, before.wall_ns);
    attn_program_close(program);
    free(server);
}

int main(void)
{
    static const test_case cases[] = {
        {"measured", test_measured},
        {"round trip", test_round_trip},
        {"hostile files", test_hostile_files},
        {"grows with n", test_grows_with_n},
        {"grows with rates", test_grows_with_rates},
        {"rates are told apart", test_rates_are_told_apart},
        {"tiles do not follow rates", test_tiles_do_not_follow_rates},
        {"workers", test_workers},
        {"converges", test_converges},
        {"clamps", test_clamps},
        {"kinds and decades", test_kinds_and_decades},
        {"full", test_full},
        {"readers", test_readers},
        {"forecast is corrected", test_forecast_is_corrected},
        {NULL, NULL},
    };
    attn_blas_init();
    return test_main("cost", cases);
}
