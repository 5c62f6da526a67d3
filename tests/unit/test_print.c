/* pk_print gives what snprintf gives, for every conversion that it does itself and those it hands on. */
#include "core/print.h"

#include <criterion/criterion.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

PK_PRINTF(3, 4) static int print(char *out, size_t room, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = pk_print(out, room, format, arguments);
    va_end(arguments);
    return length;
}

/* Both printers, in rooms from none to plenty. */
#define EXPECT_SAME(...)                                                                  \
    do {                                                                                  \
        for (size_t room = 0; room < 80; room++) {                                        \
            char ours[96], theirs[96];                                                    \
            memset(ours, 'x', sizeof ours);                                               \
            memset(theirs, 'x', sizeof theirs);                                           \
            int length = print(ours, room, __VA_ARGS__);                                  \
            cr_assert_eq(length, snprintf(theirs, room, __VA_ARGS__));                    \
            cr_assert_eq(memcmp(ours, theirs, room < 96 ? room : 96) == 0 || room == 0 || \
                             strcmp(ours, theirs) == 0,                                   \
                         1, "%s instead of %s", ours, theirs);                            \
            cr_assert_eq(ours[room], 'x', "wrote behind the room");                       \
        }                                                                                 \
    } while (0)

Test(print, gives_what_snprintf_gives)
{
    EXPECT_SAME("plain");
    EXPECT_SAME("%s", "");
    EXPECT_SAME("Hello, %s", "world");
    EXPECT_SAME("%.*s|%.*s|%.*s", 3, "abcdef", 0, "abc", 9, "abc");
    EXPECT_SAME("%d %d %d %i", 0, INT_MIN, INT_MAX, -1);
    EXPECT_SAME("%u %lu", UINT_MAX, ULONG_MAX);
    EXPECT_SAME("%ld %lld", LONG_MIN, LLONG_MIN);
    EXPECT_SAME("%llu %zu", ULLONG_MAX, SIZE_MAX);
    EXPECT_SAME("%c%c 100%%", 'a', 'b');
    EXPECT_SAME("%5d|%-4s|%x|%08.3f|%s", 42, "ab", 255u, 1.5, "end");
    EXPECT_SAME("%s then %#x", "first", 16u);
}

Test(print, a_text_without_a_nul_is_read_no_further_than_told)
{
    char text[3] = {'a', 'b', 'c'};
    char out[8];
    cr_assert_eq(print(out, sizeof out, "%.*s", 3, text), 3);
    cr_assert_str_eq(out, "abc");
}
