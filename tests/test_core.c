/* The small parts of libattn that everything stands on: arena, status, views, plan, machine. */
#include "attn/arena.h"
#include "attn/machine.h"
#include "attn/plan.h"
#include "attn/status.h"
#include "attn/tensor.h"
#include "kernels/kernels.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ARENA_BYTES = 1024
};

static attn_arena open_arena(void)
{
    attn_arena arena;
    attn_arena_init(&arena, aligned_alloc(ATTN_ALIGN, ARENA_BYTES), ARENA_BYTES);
    return arena;
}

static void test_arena_aligns(void)
{
    attn_arena arena = open_arena();
    static const size_t sizes[] = {1, 63, 64, 65, 3, 128};
    unsigned char *expected = arena.base;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *taken = attn_arena_take(&arena, sizes[i]);
        CHECK(taken == expected, "take %zu of %zu bytes: at offset %td", i, sizes[i],
              taken - arena.base);
        CHECK((uintptr_t)taken % ATTN_ALIGN == 0, "take %zu is not aligned", i);
        memset(taken, 0xFF, sizes[i]);
        expected += attn_arena_round(sizes[i]);
    }
    CHECK(arena.used == 64 + 64 + 64 + 128 + 64 + 128, "used %zu", arena.used);
    free(arena.base);
}

static void test_arena_round(void)
{
    static const size_t rounded[][2] = {{0, 0}, {1, 64}, {63, 64}, {64, 64}, {65, 128}, {129, 192}};
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        CHECK(attn_arena_round(rounded[i][0]) == rounded[i][1], "%zu rounds to %zu, expected %zu",
              rounded[i][0], attn_arena_round(rounded[i][0]), rounded[i][1]);
}

static void test_arena_full(void)
{
    attn_arena arena = open_arena();
    CHECK(attn_arena_take(&arena, ARENA_BYTES + 1) == NULL, "more than there is");
    CHECK(attn_arena_take(&arena, ARENA_BYTES) == arena.base, "all there is");
    CHECK(attn_arena_take(&arena, 1) == NULL, "one byte of a full arena");
    CHECK(arena.used == ARENA_BYTES && arena.peak == ARENA_BYTES, "used %zu, peak %zu", arena.used,
          arena.peak);
    attn_arena_rewind(&arena, ARENA_BYTES - 64);
    CHECK(attn_arena_take(&arena, 65) == NULL, "65 bytes of 64");
    CHECK(attn_arena_take(&arena, 64) != NULL, "the last 64 bytes");
    free(arena.base);
}

/* A room that is not a multiple of the alignment ends before it would be overrun. */
static void test_arena_odd_room(void)
{
    attn_arena arena = open_arena();
    attn_arena_init(&arena, arena.base, 100);
    CHECK(attn_arena_take(&arena, 100) == NULL, "100 bytes round to 128, of which there are 100");
    CHECK(attn_arena_take(&arena, 64) != NULL, "64 of 100 bytes");
    CHECK(attn_arena_take(&arena, 36) == NULL, "36 bytes round to 64, of which there are 36");
    free(arena.base);
}

static void test_arena_enormous(void)
{
    attn_arena arena = open_arena();
    attn_arena_take(&arena, 64);
    for (size_t less = 0; less < 200; less++)
        CHECK(attn_arena_take(&arena, SIZE_MAX - less) == NULL, "SIZE_MAX - %zu bytes", less);
    CHECK(arena.used == 64, "refusals took %zu bytes", arena.used);
    free(arena.base);
}

static void test_arena_rewinds(void)
{
    attn_arena arena = open_arena();
    attn_arena_take(&arena, 100);
    size_t mark = arena.used;
    void *first = attn_arena_take(&arena, 500);
    attn_arena_rewind(&arena, mark);
    CHECK(arena.used == 128 && arena.peak == 640, "used %zu, peak %zu", arena.used, arena.peak);
    CHECK(attn_arena_take(&arena, 1) == first, "memory given back comes again");
    CHECK(arena.peak == 640, "the peak is kept, now %zu", arena.peak);
    free(arena.base);
}

static void test_status_names(void)
{
    static const struct {
        attn_status status;
        const char *name;
    } expected[] = {{ATTN_OK, "ok"},
                    {ATTN_MALFORMED, "malformed"},
                    {ATTN_INVALID, "invalid_argument"},
                    {ATTN_UNSUPPORTED, "unsupported"},
                    {ATTN_NO_MEMORY, "no_memory"},
                    {ATTN_NON_FINITE, "non_finite"},
                    {ATTN_CANCELLED, "cancelled"},
                    {ATTN_DEADLINE, "deadline_exceeded"},
                    {ATTN_INTERNAL, "internal"},
                    {(attn_status)99, "internal"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        CHECK(strcmp(attn_status_name(expected[i].status), expected[i].name) == 0,
              "status %d is called %s, expected %s", expected[i].status,
              attn_status_name(expected[i].status), expected[i].name);
    CHECK(ATTN_OK == 0, "a zeroed error must be none");
}

static void test_error_first_cause_wins(void)
{
    attn_error error = {0};
    attn_status status = attn_error_set(&error, ATTN_INVALID, "q", "q has %d columns", 3);
    CHECK(status == ATTN_INVALID && error.status == ATTN_INVALID, "returned %d, holds %d", status,
          error.status);
    status = attn_error_set(&error, ATTN_INTERNAL, "k", "consequence");
    CHECK(status == ATTN_INTERNAL, "the second call returns its own status, not %d", status);
    CHECK(error.status == ATTN_INVALID && strcmp(error.param, "q") == 0 &&
              strcmp(error.message, "q has 3 columns") == 0,
          "the first cause was overwritten: %d %s: %s", error.status, error.param, error.message);
}

static void test_error_without_place(void)
{
    CHECK(attn_error_set(NULL, ATTN_DEADLINE, "q", "nobody asks") == ATTN_DEADLINE,
          "no error to fill");
    attn_error error = {.param = "left over"};
    attn_error_set(&error, ATTN_CANCELLED, NULL, "gone");
    CHECK(error.param[0] == '\0', "param is \"%s\", expected none", error.param);
}

static void test_error_truncates(void)
{
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct {
        attn_error error;
        char guard[8];
    } held = {.guard = "guarded"};
    attn_error_set(&held.error, ATTN_INVALID, text, "%s", text);
    CHECK(strlen(held.error.param) == sizeof held.error.param - 1, "param has %zu characters",
          strlen(held.error.param));
    CHECK(strlen(held.error.message) == sizeof held.error.message - 1, "message has %zu characters",
          strlen(held.error.message));
    CHECK(strcmp(held.guard, "guarded") == 0, "wrote behind the error");
}

/* Every element of a dense view is where row-major order puts it. */
static void test_views(void)
{
    enum {
        BATCH = 2,
        HEADS = 3,
        ROWS = 4,
        COLUMNS = 5
    };
    float data[BATCH * HEADS * ROWS * COLUMNS];
    attn_view view = attn_view_dense(data, HEADS, ROWS, COLUMNS);
    float *expected = data;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < ROWS; i++, expected += COLUMNS)
                CHECK(attn_view_row(view, b, h, i) == expected, "row (%d, %d, %d)", b, h, i);
    attn_view interleaved = {.data = data, .batch = 60, .head = COLUMNS, .row = HEADS * COLUMNS};
    CHECK(attn_view_row(interleaved, 1, 2, 3) == data + 60 + 10 + 45, "interleaved heads");
}

/* Offsets beyond 2^31 floats do not wrap. The address is computed, nothing is read. */
static void test_large_views(void)
{
    attn_view view = attn_view_dense(NULL, 64, 1 << 20, 128);
    CHECK(view.batch == (ptrdiff_t)1 << 33 && view.head == (ptrdiff_t)1 << 27, "strides %td, %td",
          view.batch, view.head);
}

/* A phase too many is a status, and leaves the plan and what lies behind it alone. */
static void test_plan_append(void)
{
    attn_plan plan = {.shared_bytes = 1};
    attn_error error = {0};
    for (int p = 0; p < ATTN_MAX_PHASES; p++) {
        attn_status status = attn_plan_append(&plan, (attn_phase){"a", p + 1, 1.0}, &error);
        CHECK(status == ATTN_OK && plan.phase_count == p + 1 && plan.phases[p].tiles == p + 1,
              "phase %d: %s", p, attn_status_name(status));
    }
    attn_plan before = plan;
    attn_status status = attn_plan_append(&plan, (attn_phase){"b", 1, 1.0}, &error);
    CHECK(status == ATTN_INTERNAL && strlen(error.message) > 10, "one more: %s \"%s\"",
          attn_status_name(status), error.message);
    CHECK(memcmp(&plan, &before, sizeof plan) == 0, "a refused phase changed the plan");
}

static void test_plan_sums(void)
{
    attn_plan plan = {.phase_count = 2,
                      .phases = {{"a", 3, 10.0}, {"b", 1000000000000, 0.5}, {"unused", 7, 7.0}},
                      .shared_bytes = 1000,
                      .scratch_bytes = (size_t)3 << 30};
    CHECK(attn_plan_ns(&plan) == 30 + 5e11, "%g ns", attn_plan_ns(&plan));
    CHECK(attn_plan_bytes(&plan, 1) == 1000 + ((size_t)3 << 30), "%zu bytes for one worker",
          attn_plan_bytes(&plan, 1));
    CHECK(attn_plan_bytes(&plan, 48) == 1000 + 48 * ((size_t)3 << 30), "%zu bytes for 48 workers",
          attn_plan_bytes(&plan, 48));
    plan.phase_count = 0;
    CHECK(attn_plan_ns(&plan) == 0, "%g ns without a phase", attn_plan_ns(&plan));
}

static void test_default_scale(void)
{
    static const int64_t columns[] = {1, 2, 64, 80, 128, INT32_MAX};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        double exact = 1 / sqrt((double)columns[i]);
        CHECK(fabs(attn_default_scale(columns[i]) - exact) <= exact * 0x1p-24, "d %lld: %.9g",
              (long long)columns[i], attn_default_scale(columns[i]));
    }
    CHECK(attn_default_scale(64) == 0.125F, "d 64: %.9g", attn_default_scale(64));
}

static void check_box(const attn_machine *machine, const char *name)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    double ram = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    CHECK(machine->cores >= 1 && machine->cores <= online, "%s: %d cores of %ld", name,
          machine->cores, online);
    CHECK(machine->memory_bytes > 0 && (double)machine->memory_bytes <= ram, "%s: %zu bytes of %g",
          name, machine->memory_bytes, ram);
#define RATE(member, fallback, what) \
    CHECK(machine->rates.member == fallback, "%s: " #member " is %g", name, machine->rates.member);
#include "attn/rates.def"
#undef RATE
}

static void test_machine_each_isa(void)
{
    for (attn_isa isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++) {
        const char *name = attn_isa_name(isa);
        attn_machine machine;
        attn_error error = {0};
        attn_status status = attn_machine_probe(&machine, name, &error);
        if (attn_kernels_find(isa)) {
            CHECK(status == ATTN_OK && machine.isa == isa, "%s: %s %s", name,
                  attn_status_name(status), error.message);
            check_box(&machine, name);
        } else {
            CHECK(status == ATTN_UNSUPPORTED && strcmp(error.param, "isa") == 0 &&
                      strstr(error.message, name) && strstr(error.message, "auto"),
                  "%s: %s, param %s: %s", name, attn_status_name(status), error.param,
                  error.message);
        }
    }
}

static void test_machine_auto(void)
{
    attn_isa best = ATTN_ISA_SCALAR;
    for (attn_isa isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++)
        if (attn_kernels_find(isa))
            best = isa;
    attn_machine machine;
    attn_status status = attn_machine_probe(&machine, "auto", NULL);
    CHECK(status == ATTN_OK && machine.isa == best, "%s, %s instead of %s",
          attn_status_name(status), attn_isa_name(machine.isa), attn_isa_name(best));
    check_box(&machine, "auto");
}

static void test_machine_unknown_isa(void)
{
    static const char *const names[] = {
        "neon",
        "",
        "AVX2",
        "avx",
        "avx5122",
        "a name so long that the sentence has to cut it somewhere before it becomes unreadable"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        attn_machine machine;
        attn_error error = {0};
        attn_status status = attn_machine_probe(&machine, names[i], &error);
        CHECK(status == ATTN_INVALID && strcmp(error.param, "isa") == 0 &&
                  strstr(error.message, "expected auto, scalar, avx2 or avx512"),
              "\"%s\": %s, param %s: %s", names[i], attn_status_name(status), error.param,
              error.message);
        CHECK(attn_machine_probe(&machine, names[i], NULL) == ATTN_INVALID, "no error to fill");
    }
}

int main(void)
{
    static const test_case cases[] = {
        {"arena aligns", test_arena_aligns},
        {"arena rounds", test_arena_round},
        {"arena full", test_arena_full},
        {"arena with an odd room", test_arena_odd_room},
        {"arena asked for enormous sizes", test_arena_enormous},
        {"arena rewinds", test_arena_rewinds},
        {"status names", test_status_names},
        {"the first cause wins", test_error_first_cause_wins},
        {"an error without a place", test_error_without_place},
        {"long errors are cut", test_error_truncates},
        {"views", test_views},
        {"large views", test_large_views},
        {"plan append", test_plan_append},
        {"plan sums", test_plan_sums},
        {"default scale", test_default_scale},
        {"machine with each isa", test_machine_each_isa},
        {"machine with auto", test_machine_auto},
        {"machine with an unknown isa", test_machine_unknown_isa},
        {NULL, NULL},
    };
    return test_main("core", cases);
}
