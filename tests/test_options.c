/* The options of a request. fields.def is expanded here as it is in the reader, so every field is
 * tried with every kind of value, and a new field is tested without a line of its own. */
#include "server/attend/options.h"
#include "server/codec/body.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind {
    BOOL,
    INT,
    REAL,
    STRING,
    INTS,
} kind;

typedef struct field {
    const char *path;
    kind kind;
    double least, most;
    unsigned routes;
} field;

static const field fields[] = {
#define FIELD(id, path, kind, least, most, backends, routes) \
    {path, kind, least, most, SRV_FOR_##routes},
#include "server/attend/fields.def"
#undef FIELD
};

static const char *const groups[] = {"params", "hints", "shape"};

/* What POST /v1/plan takes. */
static const unsigned plan = SRV_FOR_ATTEND | SRV_FOR_PLAN;

enum {
    GROUPS = sizeof groups / sizeof *groups
};

/* Documents */

static json_t *parse(const char *text)
{
    json_error_t fault;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &fault);
    if (!value) {
        printf("%s: %s\n", text, fault.text);
        abort();
    }
    return value;
}

/* {"params": {"window": value}} for params.window; takes `value` over. */
static json_t *document_with(const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    json_t *object = json_pack("{s:o}", dot ? dot + 1 : path, value);
    if (!dot)
        return object;
    char group[16];
    snprintf(group, sizeof group, "%.*s", (int)(dot - path), path);
    return json_pack("{s:o}", group, object);
}

static attn_status read_text(srv_options *options, json_t **document, const char *text,
                             attn_error *error)
{
    *error = (attn_error){0};
    *document = parse(text);
    return srv_options_read(options, *document, SRV_FOR_ALL, error);
}

static void check_refused(const attn_error *error, const char *text, const char *param,
                          const char *message)
{
    CHECK(error->status == ATTN_INVALID, "%s: status %s", text, attn_status_name(error->status));
    CHECK(strcmp(error->param, param) == 0, "%s: param \"%s\", expected \"%s\"", text, error->param,
          param);
    CHECK(strstr(error->message, message) != NULL, "%s: \"%s\", expected \"%s\"", text,
          error->message, message);
}

typedef struct refusal {
    const char *text, *param, *message;
} refusal;

static void check_refusals(const refusal *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        srv_options options;
        attn_error error;
        json_t *document;
        attn_status status = read_text(&options, &document, list[i].text, &error);
        CHECK(status == ATTN_INVALID, "%s is accepted", list[i].text);
        check_refused(&error, list[i].text, list[i].param, list[i].message);
        srv_options_free(&options);
        json_decref(document);
    }
}

/* One field, one value */

/* Whether the field's line in fields.def allows the value. */
static bool is_allowed(const field *f, const json_t *value)
{
    double number = json_number_value(value);
    switch (f->kind) {
    case BOOL:
        return json_is_boolean(value);
    case INT:
        return json_is_integer(value) && number >= f->least && number <= f->most;
    case REAL:
        return json_is_number(value) && number >= f->least && number <= f->most;
    case STRING:
        return json_is_string(value) && (double)json_string_length(value) >= f->least &&
               (double)json_string_length(value) <= f->most;
    case INTS:
        break;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        double element = json_number_value(json_array_get(value, i));
        if (!json_is_integer(json_array_get(value, i)) || element < f->least || element > f->most)
            return false;
    }
    return json_is_array(value);
}

static bool same_integers(const srv_value *read, const json_t *array)
{
    bool same = read->integers.count == json_array_size(array);
    for (size_t i = 0; same && i < read->integers.count; i++)
        same = read->integers.data[i] == json_integer_value(json_array_get(array, i));
    return same;
}

static bool holds(const srv_options *options, srv_field id, const json_t *value)
{
    double real = srv_options_real(options, id, NAN), sent = json_number_value(value);
    switch (fields[id].kind) {
    case BOOL:
        return srv_options_bool(options, id, !json_is_true(value)) == json_is_true(value);
    case INT:
        return srv_options_int(options, id, -7) == json_integer_value(value);
    case REAL:
        return real >= sent && real <= sent;
    case STRING:
        return srv_options_string(options, id, NULL) == json_string_value(value);
    case INTS:
        break;
    }
    return same_integers(&options->values[id], value);
}

/* Read the document that gives field `id` this value, and nothing else; takes `value` over. */
static void check_field(srv_field id, json_t *value)
{
    const field *f = &fields[id];
    bool allowed = is_allowed(f, value);
    json_t *document = document_with(f->path, json_incref(value));
    char *text = json_dumps(document, JSON_COMPACT);
    srv_options options;
    attn_error error = {0};
    attn_status status = srv_options_read(&options, document, SRV_FOR_ALL, &error);
    CHECK(status == (allowed ? ATTN_OK : ATTN_INVALID), "%.100s: %s, %s", text,
          attn_status_name(status), error.message);
    if (allowed)
        CHECK(holds(&options, id, value), "%.100s reads as something else", text);
    else
        check_refused(&error, text, f->path, "expected ");
    CHECK(allowed || strstr(error.message, ": found "), "%.100s: \"%s\"", text, error.message);
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        CHECK((i == (int)id && status != ATTN_OK) ||
                  srv_options_given(&options, (srv_field)i) == (i == (int)id),
              "%.100s: %s", text, fields[i].path);
    srv_options_free(&options);
    free(text);
    json_decref(document);
    json_decref(value);
}

static void every_field_with_every_kind_of_value(void)
{
    static const char *const values[] = {
        "null",
        "true",
        "false",
        "\"abc\"",
        "\"\"",
        "\"1\"",
        "{}",
        "{\"a\":1}",
        "[]",
        "[1]",
        "[1,2,3]",
        "[1,\"a\"]",
        "[null]",
        "[1.5]",
        "[[1]]",
        "[-1]",
        "[true]",
        "0",
        "1",
        "-0",
        "-1",
        "2147483647",
        "2147483648",
        "-2147483648",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "0.0",
        "0.5",
        "1.0",
        "-0.5",
        "1e0",
        "1e300",
        "-1e300",
        "1e-300",
        "1.7976931348623157e308",
        "[2147483648]",
        "[9223372036854775807]",
    };
    for (int id = 0; id < SRV_FIELD_COUNT; id++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++)
            check_field((srv_field)id, parse(values[i]));
}

static json_t *string_of(double length)
{
    char text[256];
    memset(text, 'x', sizeof text);
    return json_stringn(text, (size_t)length);
}

/* Values on both sides of both ends; is_allowed says which side each is on. */
static void every_range_has_its_ends(void)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const double ends[] = {fields[i].least, fields[i].most};
        srv_field id = (srv_field)i;
        for (int end = 0; end < 2; end++) {
            double out = end ? INFINITY : -INFINITY;
            for (int step = -1; step <= 1 && fields[i].kind == INT; step++)
                check_field(id, json_integer((json_int_t)ends[end] + step));
            for (int step = -1; step <= 1 && fields[i].kind == INTS; step++)
                check_field(id, json_pack("[iI]", 1, (json_int_t)ends[end] + step));
            for (int step = 0; step <= 1 && fields[i].kind == STRING; step++)
                check_field(id, string_of(end ? ends[1] + step : ends[0] - step));
            if (fields[i].kind == REAL) {
                check_field(id, json_real(ends[end]));
                check_field(id, json_real(nextafter(ends[end], out)));
                check_field(id, json_real(nextafter(ends[end], -out)));
            }
        }
    }
}

static void what_is_absent_has_its_fallback(void)
{
    srv_options options;
    attn_error error;
    json_t *document;
    CHECK(read_text(&options, &document, "{\"params\":{},\"hints\":{},\"shape\":{}}", &error) ==
              ATTN_OK,
          "%s", error.message);
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        srv_field id = (srv_field)i;
        double real = srv_options_real(&options, id, 0.25);
        CHECK(!srv_options_given(&options, id), "%s", fields[i].path);
        CHECK(srv_options_bool(&options, id, true) && !srv_options_bool(&options, id, false), "%s",
              fields[i].path);
        CHECK(srv_options_int(&options, id, INT64_MIN) == INT64_MIN, "%s", fields[i].path);
        CHECK(real >= 0.25 && real <= 0.25, "%s", fields[i].path);
        CHECK(strcmp(srv_options_string(&options, id, "none"), "none") == 0, "%s", fields[i].path);
    }
    srv_options_free(&options);
    json_decref(document);
}

/* Sentences */

static void sentences_say_what_was_found(void)
{
    static const refusal list[] = {
        {"{\"causal\":1}", "causal", "causal: found 1, expected true or false"},
        {"{\"causal\":\"true\"}", "causal", "found a string, expected true or false"},
        {"{\"causal\":null}", "causal", "found null, expected true or false"},
        {"{\"scale\":\"1\"}", "scale", "scale: found a string, expected a number"},
        {"{\"scale\":false}", "scale", "found false, expected a number"},
        {"{\"scale\":1e39}", "scale", "found 1e+39, expected -3.4028235e+38 to 3.4028235e+38"},
        {"{\"model\":[]}", "model", "found an array, expected a string"},
        {"{\"model\":{}}", "model", "found an object, expected a string"},
        {"{\"model\":\"\"}", "model", "found a string of length 0, expected 1 to 128"},
        {"{\"lengths\":5}", "lengths", "found 5, expected an array of integers"},
        {"{\"lengths\":[1,2.5]}", "lengths", "lengths[1]: found 2.5, expected an integer"},
        {"{\"lengths\":[1,null]}", "lengths", "lengths[1]: found null, expected an integer"},
        {"{\"lengths\":[1,-3]}", "lengths", "found -3, expected 0 to 2147483647"},
        {"{\"params\":{\"window\":0}}", "params.window", "found 0, expected 1 to 2147483647"},
        {"{\"params\":{\"window\":5.0}}", "params.window", "found 5.0, expected an integer"},
        {"{\"params\":{\"window\":1e300}}", "params.window", "found 1e+300, expected an integer"},
        {"{\"params\":{\"seed\":9007199254740992}}", "params.seed",
         "found 9007199254740992, expected 0 to 9007199254740991"},
        {"{\"hints\":{\"deadline_ms\":-1}}", "hints.deadline_ms", "found -1, expected 0 to"},
        {"{\"shape\":{\"n\":true}}", "shape.n", "shape.n: found true, expected an integer"},
    };
    check_refusals(list, sizeof list / sizeof *list);
}

static void groups_are_objects(void)
{
    static const char *const values[][2] = {
        {"null", "null"}, {"[]", "an array"}, {"[{}]", "an array"}, {"\"x\"", "a string"},
        {"true", "true"}, {"5", "5"},         {"1.5", "1.5"},
    };
    for (int g = 0; g < GROUPS; g++) {
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            char text[80], message[80];
            snprintf(text, sizeof text, "{\"%s\":%s}", groups[g], values[i][0]);
            snprintf(message, sizeof message, "%s: found %s, expected an object", groups[g],
                     values[i][1]);
            check_refusals(&(refusal){text, groups[g], message}, 1);
        }
    }
}

/* The query string */

typedef struct query {
    const char *name, *value;
    const char *message; /* of the refusal; NULL: accepted */
} query;

static void check_query(const query *q)
{
    const srv_pair pair = {q->name, q->value};
    srv_options options;
    attn_error error = {0};
    attn_status status = srv_options_read_query(&options, &pair, 1, SRV_FOR_ALL, &error);
    CHECK((status == ATTN_OK) == !q->message, "%s=%s: %s, \"%s\"", q->name, q->value,
          attn_status_name(status), error.message);
    if (q->message)
        check_refused(&error, q->value, q->name, q->message);
    srv_options_free(&options);
}

static void a_query_takes_what_a_body_takes(void)
{
    static const query list[] = {
        {"causal", "true", NULL},
        {"causal", "false", NULL},
        {"causal", "1", "found \"1\", expected true or false"},
        {"causal", "", "found \"\", expected true or false"},
        {"causal", "True", "expected true or false"},
        {"params.window", "1", NULL},
        {"params.window", "2147483647", NULL},
        {"params.window", "0", "found 0, expected 1 to 2147483647"},
        {"params.window", "2147483648", "found 2147483648, expected 1 to"},
        {"params.window", "-1", "found -1, expected 1 to"},
        {"params.window", "", "found \"\", expected an integer"},
        {"params.window", "-", "expected an integer"},
        {"params.window", "+1", "expected an integer"},
        {"params.window", " 1", "expected an integer"},
        {"params.window", "1 ", "expected an integer"},
        {"params.window", "1e3", "expected an integer"},
        {"params.window", "1.0", "expected an integer"},
        {"params.window", "0x10", "expected an integer"},
        {"params.window", "99999999999999999999", "expected an integer"},
        {"params.seed", "9007199254740991", NULL},
        {"params.seed", "9007199254740992", "expected 0 to 9007199254740991"},
        {"scale", "0.5", NULL},
        {"scale", "-2", NULL},
        {"scale", "1e-3", NULL},
        {"scale", "", "expected a number"},
        {"scale", "nan", "expected a number"},
        {"scale", "Infinity", "expected a number"},
        {"scale", "0x1p3", "expected a number"},
        {"scale", ".5", "expected a number"},
        {"scale", "[1]", "expected a number"},
        {"scale", "\"1\"", "expected a number"},
        {"scale", "1e39", "found 1e+39, expected -3.4028235e+38 to 3.4028235e+38"},
        {"scale", "1e400", "expected a number"},
        {"lengths", "0", NULL},
        {"lengths", "4096,1800", NULL},
        {"lengths", "", "expected integers with commas"},
        {"lengths", "1,", "expected integers with commas"},
        {"lengths", ",1", "expected integers with commas"},
        {"lengths", "1,,2", "expected integers with commas"},
        {"lengths", "1, 2", "expected integers with commas"},
        {"lengths", "1;2", "expected integers with commas"},
        {"lengths", "[1,2]", "expected integers with commas"},
        {"lengths", "1,-2", "found -2, expected 0 to 2147483647"},
        {"backend", "exact", NULL},
        {"backend", "", "found a string of length 0, expected 1 to 32"},
        {"shape.n", "5", NULL},
        {"hints.deadline_ms", "200", NULL},
        {"window", "1", "window is not a known field; the nearest is params.window; known "},
        {"casual", "1", "casual is not a known field; the nearest is causal; known beside the "},
        {"hints.stride", "1", "hints.stride is not a known field; the nearest is params.stride; "},
        {"keymask", "1", "keymask is not a known field; the nearest is key_mask; known "},
        {"params", "1", "params is not a known field; known beside the tensors q, k, v, e, f, "},
        {"", "1", " is not a known field"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check_query(&list[i]);
}

static void a_query_is_read_whole(void)
{
    static const srv_pair pairs[] = {
        {"params.window", "512"}, {"lengths", "4096,1800,0"}, {"backend", "window"}};
    srv_options options;
    attn_error error = {0};
    CHECK(srv_options_read_query(&options, pairs, 3, SRV_FOR_ATTEND, &error) == ATTN_OK, "%s",
          error.message);
    json_t *lengths = parse("[4096,1800,0]");
    CHECK(srv_options_int(&options, SRV_FIELD_WINDOW, 0) == 512, "params.window is lost");
    CHECK(srv_options_string(&options, SRV_FIELD_BACKEND, "") == pairs[2].value, "backend is lost");
    CHECK(same_integers(&options.values[SRV_FIELD_LENGTHS], lengths), "lengths are lost");
    json_decref(lengths);
    srv_options_free(&options);
    static const srv_pair twice[] = {{"lengths", "1"}, {"lengths", "1"}};
    CHECK(srv_options_read_query(&options, twice, 2, SRV_FOR_ATTEND, &error) == ATTN_INVALID,
          "twice");
    check_refused(&error, "lengths twice", "lengths", "stands twice");
    srv_options_free(&options);
    static const srv_pair shape = {"shape.n", "5"};
    error = (attn_error){0};
    CHECK(srv_options_read_query(&options, &shape, 1, SRV_FOR_ATTEND, &error) == ATTN_INVALID,
          "a shape");
    check_refused(&error, "shape.n", "shape.n", "is not a known field");
    srv_options_free(&options);
}

/* Unknown members */

/* Whether the list "a, b, c" that ends the sentence holds the word. */
static bool lists(const char *message, const char *word)
{
    const char *list = strstr(message, " are ");
    size_t length = strlen(word);
    for (const char *at = list ? list + 5 : NULL; at; at = strstr(at, ", ")) {
        at += *at == ',' ? 2 : 0;
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

/* The sentence about an unknown member of `group` (NULL: the top level) lists what exists there. */
static void check_listing(const char *message, const char *group)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const char *path = fields[i].path, *dot = strchr(path, '.');
        bool there = group ? dot && strncmp(path, group, strlen(group)) == 0 : !dot;
        CHECK(!(fields[i].routes & plan) || lists(message, dot ? dot + 1 : path) == there,
              "%s in \"%s\"", path, message);
    }
}

static void check_unknown(const char *group, const char *member)
{
    char path[128], param[128];
    snprintf(path, sizeof path, "%s%s%s", group ? group : "", group ? "." : "", member);
    snprintf(param, sizeof param, "%s%s%.40s", group ? group : "", group ? "." : "", member);
    json_t *inner = json_pack("{s:i}", member, 1);
    json_t *document = group ? json_pack("{s:o}", group, inner) : inner;
    srv_options options;
    attn_error error = {0};
    CHECK(srv_options_read(&options, document, plan, &error) == ATTN_INVALID, "%s is known", path);
    check_refused(&error, path, param, " is not a known field");
    check_listing(error.message, group);
    srv_options_free(&options);
    json_decref(document);
}

static void unknown_members_are_told_the_known_ones(void)
{
    static const char *const members[] = {
        "",
        "x",
        "windows",
        "Window",
        "window ",
        "window.x",
        ".window",
        "params.window",
        "shape.n",
        "\xc3\xa9",
        "a name that is longer than any sentence about it would care to repeat"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        check_unknown(NULL, members[i]);
        for (int g = 0; g < GROUPS; g++)
            check_unknown(groups[g], members[i]);
    }
    check_unknown(NULL, "window");
    check_unknown("params", "causal");
    check_unknown("params", "q");
    check_unknown("params", "n");
    check_unknown("hints", "window");
    check_unknown("shape", "k");
    static const refusal top[] = {{"{\"param\":{}}", "param", ", params, hints"}};
    check_refusals(top, 1);
}

static void a_field_is_known_in_its_place_only(void)
{
    for (int i = 0; i < SRV_FIELD_COUNT; i++) {
        const char *dot = strchr(fields[i].path, '.');
        if (dot)
            check_unknown(NULL, fields[i].path);
        for (int g = 0; g < GROUPS && !dot && (fields[i].routes & plan); g++)
            check_unknown(groups[g], fields[i].path);
    }
}

/* A field that another route alone has is unknown, and is not among those that are listed. */
static void check_routes(const field *f, unsigned routes)
{
    const char *dot = strchr(f->path, '.'), *member = dot ? dot + 1 : f->path;
    json_t *document = document_with(f->path, json_null());
    srv_options options;
    attn_error error = {0};
    bool known = (f->routes & routes) != 0;
    CHECK(srv_options_read(&options, document, routes, &error) == ATTN_INVALID, "%s is null",
          f->path);
    CHECK(known == !strstr(error.message, " is not a known field"), "%s for %u: %s", f->path,
          routes, error.message);
    CHECK(known || !lists(error.message, member), "%s for %u is listed: %s", f->path, routes,
          error.message);
    srv_options_free(&options);
    const srv_pair pair = {f->path, f->kind == BOOL ? "true" : "1"};
    error = (attn_error){0};
    attn_status status = srv_options_read_query(&options, &pair, 1, routes, &error);
    CHECK((status == ATTN_OK) == known, "%s=1 for %u: %s", f->path, routes, error.message);
    srv_options_free(&options);
    json_decref(document);
}

static void a_field_is_known_to_its_routes_only(void)
{
    const unsigned sets[] = {SRV_FOR_ATTEND, plan, SRV_FOR_ANALYZE};
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        for (size_t r = 0; r < sizeof sets / sizeof *sets; r++)
            check_routes(&fields[i], sets[r]);
}

static void a_shape_exists_where_it_is_asked_for(void)
{
    json_t *document = parse("{\"shape\":{\"n\":5}}");
    srv_options options;
    attn_error error = {0};
    CHECK(srv_options_read(&options, document, SRV_FOR_ALL, &error) == ATTN_OK, "%s",
          error.message);
    CHECK(srv_options_int(&options, SRV_FIELD_SHAPE_N, 0) == 5, "shape.n is lost");
    srv_options_free(&options);
    CHECK(srv_options_read(&options, document, SRV_FOR_ATTEND, &error) == ATTN_INVALID,
          "shape is known");
    check_refused(&error, "shape", "shape", "shape is not a known field");
    srv_options_free(&options);
    json_decref(document);
}

static void tensors_are_stepped_over(void)
{
    static const char *const names[] = {"q", "k", "v", "e", "f", "omega", "input", "key_mask"};
    json_t *document = parse("{\"causal\":true,\"params\":{\"k\":3}}");
    srv_options options;
    attn_error error = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK(srv_tensor_find(names[i]) >= 0, "%s", names[i]);
        json_object_set_new(document, names[i], json_null());
    }
    CHECK(srv_options_read(&options, document, SRV_FOR_ATTEND, &error) == ATTN_OK, "%s",
          error.message);
    CHECK(srv_options_bool(&options, SRV_FIELD_CAUSAL, false), "causal is lost");
    CHECK(srv_options_int(&options, SRV_FIELD_K, 0) == 3, "params.k is not the tensor k");
    srv_options_free(&options);
    json_decref(document);
}

static void freeing_twice_is_harmless(void)
{
    static const char *const texts[] = {"{}", "{\"lengths\":[]}", "{\"lengths\":[1,2,3]}",
                                        "{\"lengths\":[1,\"x\"]}", "{\"lengths\":[1],\"x\":1}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        srv_options options;
        attn_error error;
        json_t *document;
        read_text(&options, &document, texts[i], &error);
        srv_options_free(&options);
        CHECK(!srv_options_given(&options, SRV_FIELD_LENGTHS), "%s: lengths are left", texts[i]);
        srv_options_free(&options);
        json_decref(document);
    }
}

/* Backends */

static const char *const backends[] = {"exact",     "window", "sparse", "linformer",
                                       "performer", "mamba",  "hybrid"};

enum {
    BACKENDS = sizeof backends / sizeof *backends
};

/* Which backends use which params, as the contract means them. */
static const struct {
    srv_field field;
    const char *text;
    bool used[BACKENDS];
} uses[] = {
    {SRV_FIELD_WINDOW, "{\"params\":{\"window\":2}}", {0, 1, 0, 0, 0, 0, 1}},
    {SRV_FIELD_PATTERN, "{\"params\":{\"pattern\":\"strided\"}}", {0, 0, 1, 0, 0, 0, 0}},
    {SRV_FIELD_STRIDE, "{\"params\":{\"stride\":2}}", {0, 0, 1, 0, 0, 0, 0}},
    {SRV_FIELD_SUMMARY, "{\"params\":{\"summary\":2}}", {0, 0, 1, 0, 0, 0, 0}},
    {SRV_FIELD_K, "{\"params\":{\"k\":2}}", {0, 0, 0, 1, 0, 0, 0}},
    {SRV_FIELD_PROJECTION, "{\"params\":{\"projection\":\"mean\"}}", {0, 0, 0, 1, 0, 0, 0}},
    {SRV_FIELD_FEATURES, "{\"params\":{\"features\":2}}", {0, 0, 0, 0, 1, 0, 0}},
    {SRV_FIELD_ORTHOGONAL, "{\"params\":{\"orthogonal\":false}}", {0, 0, 0, 0, 1, 0, 0}},
    {SRV_FIELD_NORM, "{\"params\":{\"norm\":\"chi\"}}", {0, 0, 0, 0, 1, 0, 0}},
    {SRV_FIELD_SEED, "{\"params\":{\"seed\":0}}", {0, 0, 0, 1, 1, 0, 0}},
};

static void a_backend_takes_only_its_own_params(void)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        srv_options options;
        attn_error error;
        json_t *document;
        CHECK(read_text(&options, &document, uses[i].text, &error) == ATTN_OK, "%s", error.message);
        CHECK(srv_options_given(&options, uses[i].field), "%s", uses[i].text);
        for (int b = 0; b < BACKENDS; b++) {
            char message[80];
            attn_status status = srv_options_check_backend(&options, backends[b], &error);
            CHECK((status == ATTN_OK) == uses[i].used[b], "%s with %s: %s", uses[i].text,
                  backends[b], attn_status_name(status));
            snprintf(message, sizeof message, "not by %s; leave it out", backends[b]);
            if (status != ATTN_OK)
                check_refused(&error, uses[i].text, fields[uses[i].field].path, message);
            error = (attn_error){0};
        }
        srv_options_free(&options);
        json_decref(document);
    }
}

static void every_backend_takes_the_rest(void)
{
    static const char text[] =
        "{\"model\":\"m\",\"adapter\":\"a\",\"backend\":\"exact\",\"causal\":true,\"scale\":2,"
        "\"lengths\":[1],\"return_output\":false,\"measure_error\":true,\"shape\":{\"n\":1,\"m\":1,"
        "\"heads\":1,\"kv_heads\":1,\"d\":1,\"dv\":1,\"batch\":1},\"hints\":{\"long_range\":true,"
        "\"locality\":true,\"max_relative_error\":0.1,\"deadline_ms\":5},\"windows\":[1],"
        "\"features\":1,\"seed\":1}";
    srv_options options;
    attn_error error;
    json_t *document;
    CHECK(read_text(&options, &document, text, &error) == ATTN_OK, "%s", error.message);
    for (int i = 0; i < SRV_FIELD_COUNT; i++)
        CHECK(srv_options_given(&options, (srv_field)i) ==
                  (strncmp(fields[i].path, "params.", 7) != 0),
              "%s", fields[i].path);
    for (int b = 0; b < BACKENDS; b++)
        CHECK(srv_options_check_backend(&options, backends[b], &error) == ATTN_OK, "%s: %s",
              backends[b], error.message);
    srv_options_free(&options);
    json_decref(document);
}

static const test_case cases[] = {
    {"every field with every kind of value", every_field_with_every_kind_of_value},
    {"every range has its ends", every_range_has_its_ends},
    {"what is absent has its fallback", what_is_absent_has_its_fallback},
    {"sentences say what was found", sentences_say_what_was_found},
    {"groups are objects", groups_are_objects},
    {"a query takes what a body takes", a_query_takes_what_a_body_takes},
    {"a query is read whole", a_query_is_read_whole},
    {"unknown members are told the known ones", unknown_members_are_told_the_known_ones},
    {"a field is known in its place only", a_field_is_known_in_its_place_only},
    {"a field is known to its routes only", a_field_is_known_to_its_routes_only},
    {"a shape exists where it is asked for", a_shape_exists_where_it_is_asked_for},
    {"tensors are stepped over", tensors_are_stepped_over},
    {"freeing twice is harmless", freeing_twice_is_harmless},
    {"a backend takes only its own params", a_backend_takes_only_its_own_params},
    {"every backend takes the rest", every_backend_takes_the_rest},
    {NULL, NULL},
};

int main(void)
{
    return test_main("options", cases);
}
