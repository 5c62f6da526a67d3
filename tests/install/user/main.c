/*
 * A program outside of the tree, as a user would write it: built by the tests of this folder
 * against an installed pekoe and against pekoe as a meson subproject. It ends with 0.
 */
#include <pekoe/loop.h>

#include "hello.pb-c.h"

#include <stdio.h>

static void greet(void *loop)
{
    Google__Protobuf__Timestamp when = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    User__Hello hello = USER__HELLO__INIT;
    when.seconds = 1;
    hello.name = (char *) "loop";
    hello.when = &when;
    printf("hello from the %s, %zu bytes\n", hello.name,
           protobuf_c_message_get_packed_size(&hello.base));
    pk_loop_stop(loop);
}

int main(void)
{
    pk_loop *loop = NULL;
    if (pk_loop_new(&loop, NULL) < 0 || pk_loop_post(loop, greet, loop) < 0)
        return 1;
    pk_loop_run(loop);
    pk_loop_free(loop);
    return 0;
}
