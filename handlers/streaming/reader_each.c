/*
 * Reading to the end: the plain loop over a reader's messages, or over its frames. It uses the reader
 * as anybody does.
 */
#include "handlers/streaming/stream.h"

struct each {
    pk_reader *reader;
    pk_future (*read)(pk_reader *reader);
    pk_step *fn;
    void *arg;
};

static pk_future each_message(struct each *each, pk_future read);

static pk_future each_read(const void *message, void *arg)
{
    return each_message(arg, pk_done(message));
}

static pk_future each_handled(const void *unused, void *arg)
{
    struct each *each = arg;
    return each_message(each, each->read(each->reader));
}

/* A plain loop over what is there; it goes on in a step only where something is pending. */
static pk_future each_message(struct each *each, pk_future read)
{
    for (;;) {
        if (read.state != PK_FUTURE_DONE)
            return pk_then(read, each_read, each);
        if (!read.pointer)
            return read;
        pk_future handled = each->fn(read.pointer, each->arg);
        if (handled.state != PK_FUTURE_DONE)
            return pk_then(handled, each_handled, each);
        read = each->read(each->reader);
    }
}

static pk_future read_each(pk_reader *reader, pk_future (*read)(pk_reader *), pk_step *fn,
                           void *arg)
{
    struct each *each = pk_arena_try(&reader->call->scope.arena, sizeof *each);
    if (!each)
        return pk_failed_with(&pk_status_no_memory);
    *each = (struct each){reader, read, fn, arg};
    return each_message(each, read(reader));
}

pk_future pk_reader_each(pk_reader *reader, pk_step *fn, void *arg)
{
    return read_each(reader, pk_reader_read, fn, arg);
}

pk_future pk_reader_each_frames(pk_reader *reader, pk_step *fn, void *arg)
{
    return read_each(reader, pk_reader_read_frames, fn, arg);
}
