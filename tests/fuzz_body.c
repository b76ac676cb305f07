/* libFuzzer target: the body reader, in small slices, against jansson's reading of the whole text.
 *
 * The input is a byte, which gives the size of a slice, and then the body. Whatever the reader
 * accepts, jansson must accept, and every number must be the one jansson reads. Texts that jansson
 * takes and the reader refuses are fine: jansson knows nothing of shapes. */
#include "server/codec/body.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

/* Compare the numbers in document order; returns how many there were. */
static size_t compare(const json_t *value, const srv_tensor *tensor, size_t at)
{
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            at = compare(json_array_get(value, i), tensor, at);
        return at;
    }
    require(json_is_number(value), "a tensor has something that is not a number");
    require(at < tensor->count, "a tensor has fewer numbers than jansson reads");
    float expected = (float)json_number_value(value);
    require(tensor->data[at] == expected, "a number differs from jansson's");
    return at + 1;
}

static void check_tensor(const json_t *value, const srv_tensor *tensor)
{
    size_t product = 1;
    for (int i = 0; i < tensor->rank; i++)
        product *= (size_t)tensor->dim[i];
    require(product == tensor->count, "the shape does not match the count");
    for (size_t i = 0; i < tensor->count; i++)
        require(isfinite(tensor->data[i]), "a number is not finite");
    const json_t *numbers = json_is_object(value) ? json_object_get(value, "data") : value;
    if (numbers)
        require(compare(numbers, tensor, 0) == tensor->count, "jansson reads fewer numbers");
    else
        require(tensor->form == SRV_FORM_BASE64, "numbers from nowhere");
}

static void check_document(const srv_body *body, const char *text, size_t size)
{
    static const char *const names[] = {"q", "k", "v", "e", "f", "omega", "input", "key_mask"};
    json_error_t cause;
    json_t *whole =
        json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &cause);
    require(whole != NULL, cause.text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(whole, names[i]);
        const srv_tensor *tensor = srv_body_tensor(body, names[i]);
        require(!value == !tensor, "a tensor is in one reading only");
        if (tensor)
            check_tensor(value, tensor);
    }
    require(json_object_size(whole) == json_object_size(srv_body_fields(body)),
            "the fields differ in number");
    json_decref(whole);
}

static void check_error(const attn_error *error)
{
    require(error->status == ATTN_MALFORMED || error->status == ATTN_INVALID, "odd status");
    require(error->message[0] != '\0', "no message");
    for (const char *c = error->message; *c; c++)
        require(*c >= ' ' && *c <= '~', "a message that cannot be printed");
    for (const char *c = error->param; *c; c++)
        require(*c >= ' ' && *c <= '~', "a param that cannot be printed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t slice = data[0] % 64, length = size - 1;
    char *text = calloc(1, length + SRV_BODY_PADDING);
    require(text != NULL, "no memory");
    memcpy(text, data + 1, length);
    srv_body *body = srv_body_open(text, length);
    require(body != NULL, "no memory");
    attn_error error = {0};
    srv_body_step step;
    do
        step = srv_body_read(body, slice, &error);
    while (step == SRV_BODY_MORE);
    if (step == SRV_BODY_DONE)
        check_document(body, text, length);
    else
        check_error(&error);
    srv_body_close(body);
    free(text);
    return 0;
}
