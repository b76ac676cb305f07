/* The walk over a body: one automaton for the top-level object and, one level down, the object that
 * a tensor may be. Between them the two levels know six kinds of token and no recursion. */
#include "server/codec/body.h"

#include "server/codec/field.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const tensor_names[] = {"q", "k", "v", "e", "f", "omega", "input", "key_mask"};

enum {
    TENSORS = sizeof tensor_names / sizeof *tensor_names,
    KEY_MAX = 16
};

typedef enum state {
    AT_START,     /* the body's opening brace must come */
    AT_FIRST_KEY, /* a key or a closing brace */
    AT_KEY,       /* a key */
    AT_COLON,
    AT_VALUE,
    IN_ARRAY,  /* inside the numbers of `field` */
    IN_BASE64, /* inside the base64 text of `field` */
    AT_NEXT,   /* a comma or a closing brace */
    AT_TAIL,   /* nothing but white space */
    CONVERTING,
    FINISHED,
} state;

struct srv_body {
    srv_cursor cursor;
    state state;
    char key[KEY_MAX]; /* the key whose value comes next; "" when it is too long to matter */
    srv_field *inside; /* the tensor whose object is open, or NULL at the top level */
    srv_field *field;  /* the tensor whose numbers or base64 text are being read or converted */
    srv_buffer rest;   /* the document without the tensors' numbers */
    json_t *fields;
    srv_field tensors[TENSORS];
};

srv_body *srv_body_open(const char *text, size_t length)
{
    srv_body *body = calloc(1, sizeof *body);
    if (!body)
        return NULL;
    body->cursor = (srv_cursor){.at = text, .limit = text, .end = text + length};
    for (int i = 0; i < TENSORS; i++)
        srv_field_init(&body->tensors[i], tensor_names[i]);
    return body;
}

static srv_body_step out_of_memory(attn_error *error)
{
    attn_error_set(error, ATTN_NO_MEMORY, NULL, "no memory to read the body");
    return SRV_BODY_FAULT;
}

static srv_body_step unexpected(const srv_body *body, attn_status status, const char *expected,
                                attn_error *error)
{
    char found[SRV_TOKEN_MAX];
    srv_token_describe(found, body->cursor.at, body->cursor.end);
    attn_error_set(error, status, NULL, "the body: found %s, expected %s", found, expected);
    return SRV_BODY_FAULT;
}

/* The rest */

static srv_body_step keep(srv_body *body, const char *text, size_t length, attn_error *error)
{
    if (length > SRV_BODY_REST_MAX - body->rest.used) {
        attn_error_set(error, ATTN_INVALID, NULL,
                       "the body: its fields other than tensors exceed %d bytes",
                       SRV_BODY_REST_MAX);
        return SRV_BODY_FAULT;
    }
    return srv_buffer_add(&body->rest, text, length) ? SRV_BODY_MORE : out_of_memory(error);
}

/* Keep the token at the cursor, of which `skip` finds the end. No further than the limit is looked:
 * that is what bounds the time of a slice. */
static srv_body_step keep_token(srv_body *body, const char *(*skip)(const char *, const char *),
                                attn_error *error)
{
    srv_cursor *cursor = &body->cursor;
    size_t left = (size_t)(cursor->end - cursor->at);
    size_t window = SRV_BODY_REST_MAX - body->rest.used + 1;
    const char *start = cursor->at;
    const char *last = skip(start, start + (left < window ? left : window));
    if (!last && left >= window)
        return keep(body, start, window, error);
    if (!last) {
        attn_error_set(error, ATTN_MALFORMED, NULL, "the body ends in the middle of a value");
        return SRV_BODY_FAULT;
    }
    cursor->at = last;
    return keep(body, start, (size_t)(last - start), error);
}

static srv_body_step keep_mark(srv_body *body, state next, attn_error *error)
{
    body->state = next;
    return keep(body, body->cursor.at++, 1, error);
}

/* Keys */

/* Parse as jansson does. When its allocations fail it may blame the syntax, or drop a byte of a
 * token and go on: *starved tells, unless a number follows, for which jansson resets errno. */
static json_t *load(const char *text, size_t length, size_t flags, json_error_t *cause,
                    bool *starved)
{
    errno = 0;
    json_t *value = json_loadb(text, length, flags, cause);
    *starved = errno == ENOMEM;
    if (!*starved)
        return value;
    json_decref(value);
    return NULL;
}

/* Put a key as jansson will see it into body->key; what is too long to be one of ours is "". */
static srv_body_step read_key(srv_body *body, const char *text, size_t length, attn_error *error)
{
    body->key[0] = '\0';
    if (!memchr(text, '\\', length)) {
        if (length - 2 < KEY_MAX)
            snprintf(body->key, KEY_MAX, "%.*s", (int)length - 2, text + 1);
        return SRV_BODY_MORE;
    }
    bool starved;
    json_t *string = load(text, length, JSON_DECODE_ANY, NULL, &starved);
    if (string && json_string_length(string) < KEY_MAX)
        snprintf(body->key, KEY_MAX, "%s", json_string_value(string));
    json_decref(string);
    return starved ? out_of_memory(error) : SRV_BODY_MORE;
}

static srv_body_step take_key(srv_body *body, attn_error *error)
{
    const char *start = body->cursor.at;
    if (*start != '"')
        return unexpected(body, ATTN_MALFORMED, "a key in double quotes", error);
    body->state = AT_COLON;
    srv_body_step step = keep_token(body, srv_token_skip_string, error);
    if (step != SRV_BODY_MORE)
        return step;
    return read_key(body, start, (size_t)(body->cursor.at - start), error);
}

/* The tensor that body->key names at the top level, or NULL. */
static srv_field *find_tensor(srv_body *body, const char *name)
{
    for (int i = 0; i < TENSORS; i++)
        if (strcmp(name, tensor_names[i]) == 0)
            return &body->tensors[i];
    return NULL;
}

/* Values */

/* Leave null in the rest and read the tensor's data at the cursor. */
static srv_body_step begin_data(srv_body *body, srv_field *field, bool again, state next,
                                attn_error *error)
{
    if (again) {
        attn_error_set(error, ATTN_MALFORMED, field->name,
                       "the body has the key \"%s\" twice in one object", body->key);
        return SRV_BODY_FAULT;
    }
    body->field = field;
    body->state = next;
    return keep(body, "null", 4, error);
}

static srv_body_step take_value(srv_body *body, attn_error *error)
{
    srv_field *inside = body->inside, *field = inside ? NULL : find_tensor(body, body->key);
    char first = *body->cursor.at;
    if (field && first == '[')
        return begin_data(body, field, field->has_data, IN_ARRAY, error);
    if (field && first == '{') {
        body->inside = field;
        return keep_mark(body, AT_FIRST_KEY, error);
    }
    if (inside && first == '[' && strcmp(body->key, "data") == 0)
        return begin_data(body, inside, inside->has_data, IN_ARRAY, error);
    if (inside && first == '"' && strcmp(body->key, "base64") == 0) {
        body->cursor.at++;
        return begin_data(body, inside, inside->has_base64, IN_BASE64, error);
    }
    body->state = AT_NEXT;
    return keep_token(body, srv_token_skip_value, error);
}

static srv_body_step read_data(srv_body *body, attn_error *error)
{
    srv_body_step step =
        body->state == IN_ARRAY
            ? srv_field_read_array(body->field, !body->inside, &body->cursor, error)
            : srv_field_read_base64(body->field, &body->cursor, error);
    if (step != SRV_BODY_DONE)
        return step;
    body->state = AT_NEXT;
    return SRV_BODY_MORE;
}

/* The automaton */

static srv_body_step close_object(srv_body *body, attn_error *error)
{
    state next = body->inside ? AT_NEXT : AT_TAIL;
    body->inside = NULL;
    return keep_mark(body, next, error);
}

static srv_body_step take_start(srv_body *body, attn_error *error)
{
    char first = *body->cursor.at;
    if (first == '{')
        return keep_mark(body, AT_FIRST_KEY, error);
    bool value = first && strchr("[\"-0123456789tfn", first);
    return unexpected(body, value ? ATTN_INVALID : ATTN_MALFORMED, "a JSON object", error);
}

/* Take the token at the cursor, which is no white space. */
static srv_body_step take_token(srv_body *body, attn_error *error)
{
    char first = *body->cursor.at;
    switch (body->state) {
    case AT_START:
        return take_start(body, error);
    case AT_FIRST_KEY:
        return first == '}' ? close_object(body, error) : take_key(body, error);
    case AT_KEY:
        return take_key(body, error);
    case AT_COLON:
        return first == ':' ? keep_mark(body, AT_VALUE, error)
                            : unexpected(body, ATTN_MALFORMED, "':'", error);
    case AT_VALUE:
        return take_value(body, error);
    case AT_NEXT:
        if (first == '}')
            return close_object(body, error);
        return first == ',' ? keep_mark(body, AT_KEY, error)
                            : unexpected(body, ATTN_MALFORMED, "',' or '}'", error);
    default:
        return unexpected(body, ATTN_MALFORMED, "nothing after the object", error);
    }
}

static srv_body_step truncated(const srv_body *body, attn_error *error)
{
    if (body->state != IN_ARRAY && body->state != IN_BASE64)
        return unexpected(body, ATTN_MALFORMED, "more of the JSON object", error);
    attn_error_set(error, ATTN_MALFORMED, body->field->name, "%s: the body ends inside it",
                   body->field->name);
    return SRV_BODY_FAULT;
}

/* Walk to the end of the slice; DONE at the end of a text that looks complete. */
static srv_body_step walk(srv_body *body, attn_error *error)
{
    srv_body_step step = SRV_BODY_MORE;
    srv_cursor *cursor = &body->cursor;
    while (step == SRV_BODY_MORE) {
        bool in_data = body->state == IN_ARRAY || body->state == IN_BASE64;
        if (in_data ? cursor->at >= cursor->limit : !srv_cursor_skip_space(cursor))
            break;
        step = in_data ? read_data(body, error) : take_token(body, error);
    }
    if (step == SRV_BODY_FAULT || cursor->at < cursor->end)
        return step;
    return body->state == AT_TAIL ? SRV_BODY_DONE : truncated(body, error);
}

/* The end */

/* Pass on jansson's sentence, with '?' for what it quotes of the client's that cannot be printed.
 */
static srv_body_step refused(const json_error_t *cause, attn_error *error)
{
    char text[JSON_ERROR_TEXT_LENGTH] = "";
    for (size_t i = 0; i + 1 < sizeof text && cause->text[i]; i++)
        text[i] = cause->text[i] >= ' ' && cause->text[i] <= '~' ? cause->text[i] : '?';
    attn_error_set(error, ATTN_MALFORMED, NULL, "the body is not valid JSON: %s", text);
    return SRV_BODY_FAULT;
}

/* Let jansson judge the document, then hold each tensor against it. */
static srv_body_step parse_rest(srv_body *body, attn_error *error)
{
    json_error_t cause;
    bool starved;
    /* jansson 2.14 takes a NUL right after a number for white space. */
    if (memchr(body->rest.bytes, '\0', body->rest.used)) {
        attn_error_set(error, ATTN_MALFORMED, NULL,
                       "the body is not valid JSON: it holds a NUL byte");
        return SRV_BODY_FAULT;
    }
    body->fields =
        load(body->rest.bytes, body->rest.used, JSON_REJECT_DUPLICATES, &cause, &starved);
    srv_buffer_close(&body->rest);
    if (!body->fields)
        return starved ? out_of_memory(error) : refused(&cause, error);
    for (int i = 0; i < TENSORS; i++) {
        json_t *value = json_object_get(body->fields, tensor_names[i]);
        if (!value)
            continue;
        if (srv_field_settle(&body->tensors[i], value, error) != ATTN_OK)
            return SRV_BODY_FAULT;
        if (json_object_set_new(body->fields, tensor_names[i], json_null()) != 0)
            return out_of_memory(error);
    }
    body->field = body->tensors;
    body->state = CONVERTING;
    return SRV_BODY_MORE;
}

/* Convert a slice of the tensor that is next. */
static srv_body_step convert(srv_body *body, size_t bytes, attn_error *error)
{
    while (body->field < body->tensors + TENSORS) {
        srv_body_step step = SRV_BODY_DONE;
        if (body->field->tensor.rank > 0)
            step = srv_field_convert(body->field, bytes, error);
        if (step != SRV_BODY_DONE)
            return step;
        bool sliced = body->field->tensor.form == SRV_FORM_BASE64;
        body->field++;
        if (sliced)
            return SRV_BODY_MORE;
    }
    body->state = FINISHED;
    return SRV_BODY_DONE;
}

srv_body_step srv_body_read(srv_body *body, size_t bytes, attn_error *error)
{
    if (body->state == FINISHED)
        return SRV_BODY_DONE;
    if (body->state == CONVERTING)
        return convert(body, bytes, error);
    srv_cursor *cursor = &body->cursor;
    size_t left = (size_t)(cursor->end - cursor->at);
    cursor->limit = cursor->at + (bytes < left ? bytes + (bytes == 0) : left);
    srv_body_step step = walk(body, error);
    return step == SRV_BODY_DONE ? parse_rest(body, error) : step;
}

bool srv_body_is_tensor(const char *name)
{
    for (int i = 0; i < TENSORS; i++)
        if (strcmp(name, tensor_names[i]) == 0)
            return true;
    return false;
}

const srv_tensor *srv_body_tensor(const srv_body *body, const char *name)
{
    for (int i = 0; i < TENSORS; i++)
        if (strcmp(name, tensor_names[i]) == 0)
            return body->tensors[i].tensor.rank ? &body->tensors[i].tensor : NULL;
    return NULL;
}

const struct json_t *srv_body_fields(const srv_body *body)
{
    return body->fields;
}

void srv_body_close(srv_body *body)
{
    if (!body)
        return;
    for (int i = 0; i < TENSORS; i++)
        srv_field_close(&body->tensors[i]);
    srv_buffer_close(&body->rest);
    json_decref(body->fields);
    free(body);
}
