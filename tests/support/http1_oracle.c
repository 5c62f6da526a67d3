/* See http1_oracle.h. */
#include "http1_oracle.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void clear(struct reading *text)
{
    text->length = 0;
    reading_put(text, "", 0);
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Whether a connection field names other fields: then it is told. */
static bool names_fields(const char *list)
{
    static const char *const options[] = {"close", "keep-alive", "upgrade", ""};
    while (*list) {
        size_t length = strcspn(list, ","), end = length, start = 0;
        while (start < end && blank(list[start]))
            start++;
        while (end > start && blank(list[end - 1]))
            end--;
        bool known = false;
        for (size_t i = 0; i < sizeof options / sizeof *options; i++)
            known |= strlen(options[i]) == end - start &&
                     strncasecmp(options[i], list + start, end - start) == 0;
        if (!known)
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

/* What concerns the connection only. */
static bool hop(const char *name, const char *value)
{
    static const char *const names[] = {"keep-alive", "proxy-connection", "upgrade", "expect",
                                        "transfer-encoding"};
    if (strcmp(name, "connection") == 0)
        return !names_fields(value);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return strcmp(name, "te") == 0 && strcasecmp(value, "trailers") != 0;
}

static void finish_field(struct oracle_parts *parts)
{
    if (!parts->in_value)
        return;
    parts->in_value = false;
    char *name = parts->name.text, *value = parts->value.text;
    size_t length = parts->value.length;
    for (char *at = name; *at; at++) {
        if (*at >= 'A' && *at <= 'Z')
            *at = (char) (*at + ('a' - 'A'));
    }
    for (; length > 0 && blank(*value); length--)
        value++;
    for (; length > 0 && blank(value[length - 1]); length--)
        value[length - 1] = '\0';
    if (!hop(name, value)) {
        reading_put(&parts->fields, name, parts->name.length);
        reading_put(&parts->fields, ": ", 2);
        reading_put(&parts->fields, value, length);
        reading_put(&parts->fields, "\n", 1);
    }
    clear(&parts->name);
    clear(&parts->value);
}

void oracle_field(struct oracle_parts *parts, const char *at, size_t length)
{
    finish_field(parts);
    reading_put(&parts->name, at, length);
}

void oracle_value(struct oracle_parts *parts, const char *at, size_t length)
{
    parts->in_value = true;
    reading_put(&parts->name, "", 0);
    reading_put(&parts->value, at, length);
}

void oracle_head(struct oracle_parts *parts, const char *method, unsigned minor)
{
    struct reading *reading = parts->reading;
    finish_field(parts);
    reading_put(reading, method, strlen(method));
    reading_put(reading, " ", 1);
    reading_put(reading, parts->target.text, parts->target.length);
    reading_put(reading, minor ? " 1\n" : " 0\n", 3);
    reading_put(reading, parts->fields.text, parts->fields.length);
    reading_put(reading, "\n", 1);
    clear(&parts->fields);
}

void oracle_end(struct oracle_parts *parts)
{
    finish_field(parts);
    if (parts->fields.length > 0) {
        reading_put(parts->reading, "\n", 1);
        reading_put(parts->reading, parts->fields.text, parts->fields.length);
    }
    parts->reading->end = READING_COMPLETE;
}

void oracle_parts_done(struct oracle_parts *parts)
{
    reading_done(&parts->target);
    reading_done(&parts->name);
    reading_done(&parts->value);
    reading_done(&parts->fields);
}
