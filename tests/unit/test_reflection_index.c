/* services/reflection_index.c: symbols of every kind, files with their imports, extensions. */
#include <pekoe/pekoe.h>

#include "core/loop.h"
#include "helloworld.pekoe.h"
#include "reflected.pekoe.h"
#include "services/reflection_index.h"
#include "tests/support/counting_allocator.h"

#include <criterion/criterion.h>

#include <string.h>

static pk_loop *loop;
static pk_router *router;
static pk_reflection_index reflected;

static void open_index(void)
{
    static const reflected_things_impl things = {.get = NULL};
    static const helloworld_greeter_impl greeter = {.say_hello = NULL};
    cr_assert_eq(pk_loop_new(&loop, NULL), 0);
    cr_assert_eq(pk_router_new(&router, loop, NULL), 0);
    pk_reflection_index_init(&reflected, &loop->memory);
    cr_assert_null(pk_reflection_symbol(&reflected, "reflected.Outer"));
    cr_assert_eq(reflected_things_route(router, &things, NULL), 0);
    cr_assert_eq(helloworld_greeter_route(router, &greeter, NULL), 0);
    cr_assert_eq(pk_reflection_index_build(&reflected, router), 0);
}

static void close_index(void)
{
    pk_reflection_index_done(&reflected);
    pk_router_free(router);
    pk_loop_free(loop);
}

TestSuite(reflection_index, .init = open_index, .fini = close_index);

Test(reflection_index, finds_symbols_of_every_kind)
{
    static const struct {
        const char *name;
        const char *file; /* NULL: unknown */
        bool message;
    } cases[] = {
        {"reflected.Outer", "reflected.proto", true},
        {"reflected.Outer.Inner", "reflected.proto", true},
        {"reflected.Outer.Inner.Colour", "reflected.proto", false},
        {"reflected.Outer.Inner.GREEN", "reflected.proto", false},
        {"reflected.Outer.Inner.colour", "reflected.proto", false},
        {"reflected.Outer.Inner.inside", "reflected.proto", false},
        {"reflected.Outer.choice", "reflected.proto", false},
        {"reflected.Outer.text", "reflected.proto", false},
        {"reflected.Shape", "reflected.proto", false},
        {"reflected.SQUARE", "reflected.proto", false},
        {"reflected.number", "reflected.proto", false},
        {"reflected.Things", "reflected.proto", false},
        {"reflected.Things.Get", "reflected.proto", false},
        {"google.protobuf.Duration", "google/protobuf/duration.proto", true},
        {"helloworld.Greeter.SayHello", "helloworld.proto", false},
        {"reflected", NULL, false},
        {"reflected.Outer.Inner.Colour.GREEN", NULL, false},
        {".reflected.Outer", NULL, false},
        {"reflected.Outer.nothing", NULL, false},
        {"", NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pk_described_symbol *symbol = pk_reflection_symbol(&reflected, cases[i].name);
        cr_assert_eq(symbol != NULL, cases[i].file != NULL, "%s", cases[i].name);
        if (!symbol)
            continue;
        cr_assert_str_eq(symbol->name, cases[i].name);
        cr_assert_str_eq(symbol->file->file->name, cases[i].file);
        cr_assert_eq(symbol->message, cases[i].message, "%s", cases[i].name);
    }
}

Test(reflection_index, holds_each_file_once_with_its_imports)
{
    cr_assert_eq(reflected.file_count, 3u);
    const pk_described_file *file = pk_reflection_file(&reflected, "reflected.proto");
    cr_assert_not_null(file);
    cr_assert_eq(file->import_count, 1u);
    cr_assert_eq(file->imports[0],
                 pk_reflection_file(&reflected, "google/protobuf/duration.proto"));
    cr_assert_eq(file->imports[0]->import_count, 0u);
    for (size_t i = 0; i < reflected.file_count; i++)
        cr_assert_eq(reflected.files[i].place, i);
    cr_assert_null(pk_reflection_file(&reflected, "nothing.proto"));
}

Test(reflection_index, finds_extensions_by_the_message_that_they_extend)
{
    size_t count;
    const pk_described_extension *extensions =
        pk_reflection_extensions(&reflected, "reflected.Outer", &count);
    cr_assert_eq(count, 2u);
    cr_assert_eq(extensions[0].number, 100);
    cr_assert_eq(extensions[1].number, 101);
    cr_assert_str_eq(extensions[1].file->file->name, "reflected.proto");
    cr_assert_null(pk_reflection_extensions(&reflected, "reflected.Outer.Inner", &count));
    cr_assert_eq(count, 0u);
}

Test(reflection_index, each_allocation_may_fail)
{
    static const reflected_things_impl things = {.get = NULL};
    bool failed = true;
    for (size_t fail_at = 1; failed; fail_at++) {
        counting_allocator counts = {0};
        pk_loop *other;
        pk_router *services;
        pk_allocator allocator = {counting_resize, &counts};
        cr_assert_eq(pk_loop_new(&other, PK_LOOP_OPTS(.allocator = &allocator)), 0);
        cr_assert_eq(pk_router_new(&services, other, NULL), 0);
        cr_assert_eq(reflected_things_route(services, &things, NULL), 0);
        pk_reflection_index index;
        pk_reflection_index_init(&index, &other->memory);
        counts.fail_at = counts.requests + fail_at;
        int r = pk_reflection_index_build(&index, services);
        failed = counts.requests >= counts.fail_at;
        counts.fail_at = 0;
        if (r == 0)
            cr_assert_not_null(pk_reflection_symbol(&index, "reflected.SQUARE"));
        else
            cr_assert_eq(r, PK_ERR_NOMEM);
        pk_reflection_index_done(&index);
        pk_router_free(services);
        pk_loop_free(other);
        cr_assert_eq(counts.blocks, 0u);
    }
}
