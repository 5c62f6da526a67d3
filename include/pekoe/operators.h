/*
 * Operators: streams of messages put together from small parts.
 *
 * A source gives messages when it is asked, one at a time: a reader is one, and so is what an
 * operator makes of another source. Nothing is asked for before the consumer wants it, so
 * back-pressure goes through any chain. A message that is there passes all operators as function
 * calls, without an allocation.
 *
 *     pk_source *names = pk_source_of_reader(in);
 *     names = pk_source_filter(call, names, is_known, NULL);
 *     return pk_source_pipe(pk_source_map(call, names, greet, chat), out);
 *
 * Operators live in the call and are never freed. Each source has one consumer: the operator or
 * the function that it was given to. Failures pass through; the stream has ended then. Without
 * memory an operator gives a source that fails with RESOURCE_EXHAUSTED, so nothing is to be tested.
 * All of it belongs to the thread of the call's loop.
 */
#ifndef PEKOE_OPERATORS_H
#define PEKOE_OPERATORS_H

#include <pekoe/stream.h>

PK_BEGIN_DECLS

/* What a source is. Programs may make their own: as the first member of a struct of theirs. */
typedef struct pk_source pk_source;
struct pk_source {
    /*
     * The next message, borrowed until the next call, or NULL at the end. Not called while its last
     * future is pending, nor after the end, a failure or cancel.
     */
    pk_future (*next)(pk_source *source);
    /* The same, but it stays until give_back. NULL: the source only lends its messages. */
    pk_future (*take)(pk_source *source);
    /* A taken message is not needed any more. NULL: nothing is to be done. */
    void (*give_back)(pk_source *source, const void *message);
    /*
     * The consumer asks no more, before the end or after a failure; perhaps while a future is
     * pending, perhaps twice. NULL: as above.
     */
    void (*cancel)(pk_source *source);
};

/* ---- Where messages come from ---- */

/* The reader's messages. The reader is not to be read otherwise. */
PK_API pk_source *pk_source_of_reader(pk_reader *reader);

/* The messages of an array, which is borrowed as long as the source is used. */
PK_API pk_source *pk_source_of_array(pk_call *call, const void *const *messages, size_t count);

/* One message without end: for pk_source_limit, or until the writer has no room. */
PK_API pk_source *pk_source_repeat(pk_call *call, const void *message);

/*
 * One message each `milliseconds` (at least 1), for the first time that long from now. A tick that
 * nobody waited for is given when it is asked for; further ones that were missed are left out.
 */
PK_API pk_source *pk_source_tick(pk_call *call, uint64_t milliseconds, const void *message);

/* ---- What is made of them ---- */

/* The first `count` messages; `from` is cancelled then. */
PK_API pk_source *pk_source_limit(pk_call *call, pk_source *from, uint64_t count);

/* Those for which keep(message, arg) is true. */
typedef bool pk_predicate(const void *message, void *arg);
PK_API pk_source *pk_source_filter(pk_call *call, pk_source *from, pk_predicate *keep, void *arg);

/*
 * What the future of fn(message, arg) is done with, one after the other. A result stays as long as
 * its consumer needs it where that is until fn is called again. A NULL result fails with INTERNAL.
 */
PK_API pk_source *pk_source_map(pk_call *call, pk_source *from, pk_step *fn, void *arg);

/*
 * The same with up to `parallelism` (1 to 1,024) futures of fn pending at a time; results come in
 * the order of the messages. A message stays until the result that was made of it has been used,
 * so the result may lie in it (see pk_reader_alloc_with). `from` must let its messages be taken
 * (a reader, array, repeat, tick, queue, and limit and filter of such); else, and for another
 * parallelism, the source fails with INTERNAL. After a failure `from` is cancelled, and
 * what still runs is waited for by nobody.
 */
PK_API pk_source *pk_source_map_parallel(pk_call *call, pk_source *from, pk_step *fn, void *arg,
                                         size_t parallelism);

/*
 * The messages of all `count` sources as they come; those of one keep their order, and of several
 * that have one each gives one in turn. Ends when all have ended. When one fails, the others are
 * cancelled. The array is read before it returns.
 */
PK_API pk_source *pk_source_merge(pk_call *call, pk_source *const *sources, size_t count);

/* ---- Where they go ---- */

/*
 * Writes every message to the writer, the next one when there is room: for proxies, from the reader
 * of one call to the writer of another. Done with NULL at the end of the source; the writer's side
 * is not ended. When a write fails the source is cancelled.
 */
PK_API PK_NODISCARD pk_future pk_source_pipe(pk_source *source, pk_writer *writer);

/*
 * fn(message, arg) for every message, the next one when its future is done. Done with NULL at the
 * end. When fn's future fails the source is cancelled. `call`: where it is done.
 */
PK_API PK_NODISCARD pk_future pk_source_each(pk_call *call, pk_source *source, pk_step *fn,
                                             void *arg);

/* ---- Messages from elsewhere ---- */

/*
 * A queue of up to `capacity` messages (1 to 65,536) between whoever pushes and a source: for what
 * other calls or timers have to say. It lives in the call and ends with it: those that push must
 * then have been told (pk_call_on_end).
 *
 * release(message, arg), which may be NULL, runs once for each message that the queue has taken,
 * when it is not needed any more: used, or left over when the consumer or the call ends.
 */
typedef struct pk_queue pk_queue;
typedef void pk_queue_release(const void *message, void *arg);

/* NULL when memory runs out or the capacity is none; the functions below take it. */
PK_API pk_queue *pk_queue_new(pk_call *call, size_t capacity, pk_queue_release *release, void *arg);

/* What is pushed, as a source; asked for once. */
PK_API pk_source *pk_queue_source(pk_queue *queue);

/*
 * Pushes a message, borrowed until it is released. Done with NULL when the queue has taken it: at
 * once where there is room, else in the order of pushing. Fails with CANCELLED, without having
 * taken it, when the consumer or the call has ended or pk_queue_end was called, with INTERNAL for
 * NULL.
 */
PK_API PK_NODISCARD pk_future pk_queue_push(pk_queue *queue, const void *message);

/* The same without waiting. PK_ERR_LIMIT: it is full. PK_ERR_CLOSED, PK_ERR_INVALID as above. */
PK_API PK_NODISCARD int pk_queue_try_push(pk_queue *queue, const void *message);

/* No more is pushed: the source ends behind what is queued, with that failure if not NULL. */
PK_API void pk_queue_end(pk_queue *queue, const pk_status *failure);

PK_END_DECLS

#endif
