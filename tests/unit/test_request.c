/* codegen/request.c: what counts as a request. */
#include "codegen/memory.h"
#include "codegen/request.h"

#include <criterion/criterion.h>

typedef Google__Protobuf__Compiler__CodeGeneratorRequest request_type;

/* DescriptorProto.nested_type is field 3; FileDescriptorProto.message_type 4; the request's
 * proto_file 15. */
static struct gen_text nest(unsigned levels)
{
    struct gen_text text = {0};

    for (unsigned level = 0; level < levels; level++) {
        const char tag = level + 1 == levels ? 0x7a : level + 2 == levels ? 0x22 : 0x1a;
        struct gen_text outer = {0};
        char head[4] = {tag};
        size_t length = 1;

        for (size_t left = text.length; left > 0 || length == 1; left >>= 7)
            head[length++] = (char) ((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
        gen_text_append(&outer, head, length);
        gen_text_append(&outer, text.length > 0 ? text.data : "", text.length);
        gen_text_done(&text);
        text = outer;
    }
    return text;
}

static int is_request(const char *data, size_t length)
{
    request_type *request = gen_request_read((const uint8_t *) data, length);
    int good = request != NULL;

    google__protobuf__compiler__code_generator_request__free_unpacked(request, NULL);
    return good;
}

Test(request, nesting_is_followed_to_a_limit)
{
    static const struct {
        unsigned levels;
        int good;
    } rows[] = {{2, 1}, {50, 1}, {99, 1}, {100, 0}, {101, 0}, {5000, 0}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gen_text text = nest(rows[i].levels);

        cr_assert_eq(is_request(text.data, text.length), rows[i].good, "%u levels", rows[i].levels);
        gen_text_done(&text);
    }
}

Test(request, bytes_that_are_none_are_refused)
{
    cr_assert(is_request("", 0)); /* nothing is asked for */
    cr_assert_not(is_request("\x7a", 1));
    cr_assert_not(is_request("\x7a\x05\x01", 3));
    cr_assert_not(is_request("\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
    cr_assert_not(is_request("no request at all", 17));
}
