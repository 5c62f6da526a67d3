/* codegen/printer.c: templates, variables, indentation. */
#include "codegen/printer.h"

#include <criterion/criterion.h>

#include <signal.h>

static struct gen_memory memory;
static struct gen_printer out;

static void set_up(void)
{
    gen_printer_init(&out, &memory, 2);
}

static void tear_down(void)
{
    gen_printer_done(&out);
    gen_memory_done(&memory);
}

TestSuite(printer, .init = set_up, .fini = tear_down);

Test(printer, fills_variables_and_prefers_those_of_the_call)
{
    gen_set(&out, "type", "Old");
    gen_set(&out, "type", "Foo");
    gen_set_number(&out, "count", -12);
    gen_print(&out, "$type$ $name$[$count$]; $$ $type$\n", "name", "bar");
    gen_print(&out, "$type$ $empty$.\n", "type", "Bar", "empty", "");
    cr_assert_str_eq(out.text.data, "Foo bar[-12]; $ Foo\nBar .\n");
}

Test(printer, a_value_is_not_a_template)
{
    gen_print(&out, "$text$\n", "text", "$name$ 100% $");
    gen_write(&out, "$as it is$ %s\n");
    gen_printf(&out, "%d %s\n", 7, "$x$");
    cr_assert_str_eq(out.text.data, "$name$ 100% $\n$as it is$ %s\n7 $x$\n");
}

Test(printer, indents_lines_that_are_not_empty_once)
{
    gen_print(&out, "{\n");
    gen_indent(&out);
    gen_print(&out, "a$b$\n\nc", "b", " = 1;\nnext");
    gen_print(&out, " d\n");
    gen_indent(&out);
    gen_write(&out, "deep\n\n");
    gen_outdent(&out);
    gen_outdent(&out);
    gen_print(&out, "}\n");
    cr_assert_str_eq(out.text.data, "{\n  a = 1;\n  next\n\n  c d\n    deep\n\n}\n");
}

Test(printer, a_variable_without_a_value_ends_the_process, .signal = SIGABRT)
{
    gen_print(&out, "$nobody$\n", "somebody", "else");
}

Test(printer, an_odd_dollar_sign_ends_the_process, .signal = SIGABRT)
{
    gen_print(&out, "cost: 5$\n");
}
