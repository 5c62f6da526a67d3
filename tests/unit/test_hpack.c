/* Suite hpack: representations of RFC 7541 section 6, examples of its appendix C. */
#include "transport/hpack.h"

#include <criterion/criterion.h>

#include <string.h>

struct row {
    const char *what;
    size_t length;
    const char *block;
    bool inert;
};

static const struct row rows[] = {
    {"nothing", 0, "", true},
    {"an indexed field (C.2.4)", 1, "\x82", true},
    {"two of them", 2, "\x88\xbe", true},
    {"an index of two bytes", 2, "\xff\x05", true},
    {"an index that is cut off", 1, "\xff", false},
    {"an index of seven bytes", 7, "\xff\x80\x80\x80\x80\x80\x00", false},
    {"a literal that is added (C.2.1)", 5,
     "\x40\x01"
     "a\x01"
     "b",
     false},
    {"a literal of an indexed name that is added (C.3.1)", 3,
     "\x41\x01"
     "a",
     false},
    {"a literal that is not added (C.2.2)", 14, "\x04\x0c/sample/path", true},
    {"with a name of its own", 5,
     "\x00\x01"
     "a\x01"
     "b",
     true},
    {"one that is never added (C.2.3)", 5,
     "\x10\x01"
     "a\x01"
     "b",
     true},
    {"with an empty value", 2, "\x04\x00", true},
    {"without its value", 1, "\x04", false},
    {"with a value that is cut off", 4,
     "\x04\x03"
     "ab",
     false},
    {"with a length that is cut off", 2, "\x04\x7f", false},
    {"without its value, after the name", 3,
     "\x00\x01"
     "a",
     false},
    {"a Huffman text", 4, "\x04\x82\x60\xff", true},
    {"another size of the table", 1, "\x20", false},
    {"another size, then a field", 4, "\x3f\xe1\x1f\x82", false},
    {"a field that is added at the end", 7,
     "\x82\x88\x40\x01"
     "a\x01"
     "b",
     false},
};

Test(hpack, blocks_without_additions_leave_the_table_as_it_is)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t *copy = malloc(rows[i].length + 1);
        cr_assert_not_null(copy);
        memcpy(copy, rows[i].block, rows[i].length);
        cr_expect_eq(pk_hpack_block_inert(copy, rows[i].length), rows[i].inert, "%s", rows[i].what);
        free(copy);
    }
}
