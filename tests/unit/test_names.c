/* codegen/names.c: how proto names are spelt in C. Expected spellings are protoc-gen-c 1.4.1's. */
#include "codegen/names.h"

#include <criterion/criterion.h>

#include <string.h>

Test(names, spells_full_names_as_protoc_gen_c_does)
{
    static const struct {
        const char *full_name, *type, *lower, *upper, *pekoe;
    } rows[] = {
        {"Foo", "Foo", "foo", "FOO", "foo"},
        {"demo.HelloReply", "Demo__HelloReply", "demo__hello_reply", "DEMO__HELLO_REPLY",
         "demo_hello_reply"},
        {"my_pkg.v1beta1.HTTPReq2XX", "MyPkg__V1beta1__HTTPReq2XX", "my_pkg__v1beta1__httpreq2_xx",
         "MY_PKG__V1BETA1__HTTPREQ2_XX", "my_pkg_v1beta1_httpreq2_xx"},
        {"a.Empty_", "A__Empty", "a__empty_", "A__EMPTY_", "a_empty_"},
        {"a.with_Strange__names2X", "A__WithStrangeNames2X", "a__with__strange__names2_x",
         "A__WITH__STRANGE__NAMES2_X", "a_with__strange__names2_x"},
        {"register.int.struct", "Register__Int__Struct", "register__int__struct",
         "REGISTER__INT__STRUCT", "register_int_struct"},
        {"", "", "", "", ""},
    };
    struct gen_memory memory = {0};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *name = rows[i].full_name;

        cr_assert_str_eq(gen_name_type(&memory, name), rows[i].type);
        cr_assert_str_eq(gen_name_lower(&memory, name), rows[i].lower);
        cr_assert_str_eq(gen_name_upper(&memory, name), rows[i].upper);
        cr_assert_str_eq(gen_name_pekoe(&memory, name), rows[i].pekoe);
    }
    gen_memory_done(&memory);
}

Test(names, a_member_that_cannot_compile_gets_an_underscore)
{
    static const struct {
        const char *name, *ours, *protoc_gen_c;
    } rows[] = {
        {"name", "name", "name"},
        {"class", "class_", "class_"},
        {"int", "int_", "int_"},
        {"restrict", "restrict_", "restrict"},
        {"linux", "linux_", "linux"},
        {"errno", "errno_", "errno"},
        {"nullptr", "nullptr_", "nullptr"},
        {"concept", "concept_", "concept"},
        {"stdin", "stdin", "stdin"},
        {"_bool", "_bool", "_bool"},
        {"reinterpret_cast", "reinterpret_cast_", "reinterpret_cast_"},
    };
    struct gen_memory memory = {0};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_str_eq(gen_name_member(&memory, rows[i].name, true), rows[i].ours);
        cr_assert_str_eq(gen_name_member(&memory, rows[i].name, false), rows[i].protoc_gen_c);
    }
    gen_memory_done(&memory);
}

Test(names, files_get_a_stem_and_an_identifier_of_their_own)
{
    static const struct {
        const char *file, *stem, *identifier;
    } rows[] = {
        {"foo.proto", "foo", "foo_2eproto"},
        {"foo-bar.proto", "foo-bar", "foo_2dbar_2eproto"},
        {"foo_bar.proto", "foo_bar", "foo_5fbar_2eproto"},
        {"1st.proto", "1st", "1st_2eproto"},
        {"a.b.proto", "a.b", "a_2eb_2eproto"},
        {"Bar/Foo.proto", "Bar/Foo", "Bar_2fFoo_2eproto"},
        {"old.protodevel", "old", "old_2eprotodevel"},
        {"none", "none", "none"},
        {".proto", "", "_2eproto"},
        {"\xc3\xa9.proto", "\xc3\xa9", "_c3_a9_2eproto"},
    };
    struct gen_memory memory = {0};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_str_eq(gen_name_stem(&memory, rows[i].file), rows[i].stem);
        cr_assert_str_eq(gen_name_identifier(&memory, rows[i].file), rows[i].identifier);
    }
    gen_memory_done(&memory);
}

Test(names, includes_leave_quotes_where_the_folder_could_catch_them)
{
    static const struct {
        const char *from, *to, *header;
    } rows[] = {
        {"Foo", "Foo", "\"Foo.pb-c.h\""},
        {"Foo", "Bar/Foo", "\"Bar/Foo.pb-c.h\""},
        {"Bar/Foo", "Foo", "<Foo.pb-c.h>"},
        {"Bar/Foo", "Bar/Foo", "\"Bar/Foo.pb-c.h\""},
        {"Bar/Foo", "Bar/x/Foo", "\"Bar/x/Foo.pb-c.h\""},
        {"Bar/Foo", "Barbara/Foo", "<Barbara/Foo.pb-c.h>"},
        {"Bar/Foo", "google/protobuf/any", "<google/protobuf/any.pb-c.h>"},
    };
    struct gen_memory memory = {0};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct gen_file from = {.c_stem = rows[i].from};
        const struct gen_file to = {.c_stem = rows[i].to};

        cr_assert_str_eq(gen_name_include(&memory, &from, &to, ".pb-c.h"), rows[i].header);
    }
    gen_memory_done(&memory);
}
