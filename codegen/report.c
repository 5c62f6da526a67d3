/*
 * The user's errors: see report.h.
 */
#include "codegen/report.h"

#include <string.h>

const char *gen_place_text(struct gen_memory *memory, struct gen_place place)
{
    if (!place.file)
        return "";
    if (place.line <= 0)
        return place.file;
    return gen_format(memory, "%s:%d:%d", place.file, place.line, place.column);
}

void gen_fail(struct gen_report *report, struct gen_place place, const char *format, ...)
{
    va_list arguments;
    const char *where;
    const char *text;

    report->count++;
    if (report->count > GEN_REPORT_LIMIT)
        return;
    where = gen_place_text(report->memory, place);
    if (report->text.length > 0)
        gen_text_append(&report->text, "\n", 1);
    if (where[0] != '\0') {
        gen_text_append(&report->text, where, strlen(where));
        gen_text_append(&report->text, ": ", 2);
    }
    va_start(arguments, format);
    text = gen_vformat(report->memory, format, arguments);
    va_end(arguments);
    gen_text_append(&report->text, text, strlen(text));
}

void gen_report_done(struct gen_report *report)
{
    gen_text_done(&report->text);
}
