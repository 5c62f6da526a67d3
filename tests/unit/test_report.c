/* codegen/report.c: errors, one per line, with their place as far as it is known. */
#include "codegen/report.h"

#include <criterion/criterion.h>

#include <string.h>

Test(report, a_line_begins_with_the_place)
{
    struct gen_memory memory = {0};
    struct gen_report report = {.memory = &memory};

    gen_fail(&report, (struct gen_place){"x.proto", 12, 3}, "%s %d", "field", 7);
    gen_fail(&report, (struct gen_place){"x.proto", 0, 0}, "file");
    gen_fail(&report, (struct gen_place){0}, "none");
    cr_assert_str_eq(report.text.data, "x.proto:12:3: field 7\nx.proto: file\nnone");
    cr_assert_eq(report.count, 3);
    gen_report_done(&report);
    gen_memory_done(&memory);
}

Test(report, more_than_the_limit_is_counted_only)
{
    struct gen_memory memory = {0};
    struct gen_report report = {.memory = &memory};
    unsigned lines = 1;

    for (unsigned i = 0; i < 3 * GEN_REPORT_LIMIT; i++)
        gen_fail(&report, (struct gen_place){0}, "error");
    for (const char *at = report.text.data; (at = strchr(at, '\n')); at++)
        lines++;
    cr_assert_eq(lines, GEN_REPORT_LIMIT);
    cr_assert_eq(report.count, 3 * GEN_REPORT_LIMIT);
    gen_report_done(&report);
    gen_memory_done(&memory);
}
