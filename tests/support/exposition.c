/* The reader goes line by line and holds a sample against the one before it. Two house rules make
 * that enough: TYPE follows HELP at once, and `le` is a bucket's last label. */
#include "tests/support/exposition.h"

#include "server/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FAMILIES = 256,
    MAX_SAMPLES = 20000
};

typedef struct sample {
    const char *name;
    const char *labels; /* between the braces, `le` left out; "" without */
    const char *le;     /* NULL without */
    double value;
} sample;

typedef struct reading {
    const char *families[MAX_FAMILIES];
    sample samples[MAX_SAMPLES];
    size_t family_count, sample_count;
    const char *help; /* the family whose HELP was the line before, or NULL */
    enum {
        COUNTER,
        GAUGE,
        HISTOGRAM
    } kind;
    /* The histogram being read. */
    enum {
        WHOLE,
        IN_BUCKETS,
        AFTER_SUM
    } stage;
    const char *labels;
    double le, count;
} reading;

/* Length of the name at `at`, 0 when there is none. */
static size_t name_length(const char *at)
{
    static const char characters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *at >= '0' && *at <= '9' ? 0 : strspn(at, characters);
}

/* The closing quote of the label value that starts at `at`, or NULL when it is malformed. */
static char *value_end(char *at)
{
    while (*at && *at != '"') {
        if (*at == '\\' && (!at[1] || !strchr("\\\"n", *++at)))
            return NULL;
        size_t length = srv_utf8_length(at);
        if (length == 0)
            return NULL;
        at += length;
    }
    return *at ? at : NULL;
}

/* Read `{name="value",…}` at `at`, cutting it into `to`; what follows it, or NULL. */
static char *read_labels(char *at, sample *to)
{
    to->labels = at + 1;
    do {
        char *name = ++at;
        size_t length = name_length(name);
        at += length;
        if (length == 0 || strncmp(at, "=\"", 2) != 0)
            return NULL;
        char *value = at + 2;
        at = value_end(value);
        if (!at)
            return NULL;
        if (length == 2 && strncmp(name, "le", 2) == 0) {
            if (at[1] != '}')
                return NULL;
            to->le = value;
            name[name > to->labels ? -1 : 0] = '\0';
        }
        *at++ = to->le ? '\0' : '"';
    } while (*at == ',');
    if (*at != '}')
        return NULL;
    *at = '\0';
    return at + 1;
}

static const char *read_sample(char *line, sample *to)
{
    size_t length = name_length(line);
    *to = (sample){.name = line, .labels = ""};
    if (length == 0)
        return "no metric name";
    char *at = line + length;
    if (*at == '{')
        at = read_labels(at, to);
    if (!at)
        return "malformed labels";
    if (*at != ' ')
        return "no space before the value";
    line[length] = '\0';
    char *end;
    to->value = strtod(at + 1, &end);
    if (end == at + 1 || *end != '\0')
        return "malformed value";
    return isfinite(to->value) ? NULL : "a value that is not finite";
}

static bool is_same(const sample *a, const sample *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->labels, b->labels) == 0 && !a->le == !b->le &&
           (!a->le || strcmp(a->le, b->le) == 0);
}

static const char *follow_bucket(reading *reader, const sample *next)
{
    if (!next->le)
        return "a bucket without le";
    if (reader->stage == WHOLE) {
        reader->labels = next->labels;
        reader->le = -INFINITY;
        reader->count = 0;
        reader->stage = IN_BUCKETS;
    }
    double le = strtod(next->le, NULL);
    if (reader->stage != IN_BUCKETS || strcmp(next->labels, reader->labels) != 0)
        return "a histogram breaks off";
    if (!(le > reader->le))
        return "bounds that do not ascend";
    if (next->value < reader->count)
        return "buckets that are not cumulative";
    reader->le = le;
    reader->count = next->value;
    return NULL;
}

/* Hold a histogram's sample against what has to come now: buckets, sum, count. */
static const char *follow_histogram(reading *reader, const char *suffix, const sample *next)
{
    if (strcmp(suffix, "_bucket") == 0)
        return follow_bucket(reader, next);
    bool is_sum = strcmp(suffix, "_sum") == 0;
    if (reader->stage != (is_sum ? IN_BUCKETS : AFTER_SUM) || next->le ||
        strcmp(next->labels, reader->labels) != 0)
        return "a histogram out of order";
    if (is_sum && !isinf(reader->le))
        return "a missing +Inf bucket";
    if (!is_sum && strcmp(suffix, "_count") != 0)
        return "a sample outside its family";
    if (!is_sum && next->value != reader->count)
        return "a _count that is not the +Inf bucket";
    reader->stage = is_sum ? AFTER_SUM : WHOLE;
    return NULL;
}

static const char *follow_sample(reading *reader, char *line)
{
    if (reader->family_count == 0 || reader->help || reader->sample_count == MAX_SAMPLES)
        return "a sample before its TYPE";
    sample *next = &reader->samples[reader->sample_count];
    const char *fault = read_sample(line, next);
    if (fault)
        return fault;
    for (size_t i = 0; i < reader->sample_count; i++)
        if (is_same(&reader->samples[i], next))
            return "a series that comes twice";
    reader->sample_count++;
    const char *family = reader->families[reader->family_count - 1];
    size_t length = strlen(family);
    if (strncmp(next->name, family, length) != 0)
        return "a sample outside its family";
    if (reader->kind != GAUGE && next->value < 0)
        return "a counter below 0";
    if (reader->kind == HISTOGRAM)
        return follow_histogram(reader, next->name + length, next);
    return next->name[length] || next->le ? "a sample outside its family" : NULL;
}

static const char *follow_help(reading *reader, char *name)
{
    char *space = strchr(name, ' ');
    if (!space || name_length(name) != (size_t)(space - name) || !space[1])
        return "a malformed HELP";
    if (reader->help)
        return "a HELP without its TYPE";
    if (reader->stage != WHOLE)
        return "a histogram breaks off";
    *space = '\0';
    for (size_t i = 0; i < reader->family_count; i++)
        if (strcmp(reader->families[i], name) == 0)
            return "a family that comes twice";
    if (reader->family_count == MAX_FAMILIES)
        return "too many families";
    reader->help = reader->families[reader->family_count++] = name;
    return NULL;
}

static const char *follow_type(reading *reader, char *name)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    char *space = strchr(name, ' ');
    if (!space)
        return "a malformed TYPE";
    *space = '\0';
    if (!reader->help || strcmp(reader->help, name) != 0)
        return "a TYPE without its HELP";
    reader->help = NULL;
    for (int i = COUNTER; i <= HISTOGRAM; i++)
        if (strcmp(space + 1, kinds[i]) == 0) {
            reader->kind = i;
            return NULL;
        }
    return "an unknown TYPE";
}

static const char *follow_line(reading *reader, char *line)
{
    if (strncmp(line, "# HELP ", 7) == 0)
        return follow_help(reader, line + 7);
    if (strncmp(line, "# TYPE ", 7) == 0)
        return follow_type(reader, line + 7);
    return follow_sample(reader, line);
}

const char *exposition_fault(const char *text, int *line)
{
    reading *reader = calloc(1, sizeof *reader);
    char *copy = strdup(text), *at = copy;
    const char *fault = reader && copy ? NULL : "no memory to read it";
    for (*line = 1; !fault && *at; ++*line) {
        char *end = strchr(at, '\n');
        if (!end) {
            fault = "no newline at the end";
            break;
        }
        *end = '\0';
        fault = follow_line(reader, at);
        if (fault)
            break;
        at = end + 1;
    }
    if (!fault && (reader->stage != WHOLE || reader->help))
        fault = "the text breaks off";
    free(reader);
    free(copy);
    return fault;
}

double exposition_value(const char *text, const char *series)
{
    size_t length = strlen(series);
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, series, length) == 0 && at[length] == ' ')
            return strtod(at + length, NULL);
    return NAN;
}

int exposition_count(const char *text, const char *prefix)
{
    int count = 0;
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
        count += strncmp(at, prefix, strlen(prefix)) == 0;
    return count;
}
