/* codegen/parameters.c: what stands behind --pekoe_out= and --pekoe_opt=. */
#include "codegen/parameters.h"

#include <criterion/criterion.h>

#include <string.h>

static struct gen_memory memory;
static struct gen_report report;

static struct gen_parameters read_text(const char *text)
{
    struct gen_parameters parameters;

    report = (struct gen_report){.memory = &memory};
    gen_parameters_read(&parameters, text, &report);
    return parameters;
}

static void finish(void)
{
    gen_report_done(&report);
    gen_memory_done(&memory);
}

TestSuite(parameters, .fini = finish);

Test(parameters, without_any_all_messages_are_written)
{
    cr_assert(read_text(NULL).messages);
    cr_assert(read_text("").messages);
    cr_assert(read_text(",").messages);
    cr_assert_eq(report.count, 0);
}

Test(parameters, the_last_of_a_key_holds)
{
    cr_assert_not(read_text("messages=all,messages=none").messages);
    cr_assert(read_text("messages=none,,messages=all").messages);
    cr_assert_eq(report.count, 0);
}

Test(parameters, an_unknown_key_is_reported_with_those_that_exist)
{
    read_text("mesages=none");
    cr_assert_eq(report.count, 1);
    cr_assert_not_null(strstr(report.text.data, "unknown parameter \"mesages\""));
    cr_assert_not_null(strstr(report.text.data, "messages=all|none"));
}

Test(parameters, an_unknown_value_is_reported)
{
    static const char *const texts[] = {"messages", "messages=", "messages=no",
                                        "messages=all=none"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        read_text(texts[i]);
        cr_assert_eq(report.count, 1, "%s", texts[i]);
        cr_assert_not_null(strstr(report.text.data, "expected messages=all|none"));
        gen_report_done(&report);
    }
}
