/*
 * The simple sources and operators, one message at a time, and the two sinks. Each is a next
 * function over the source before it; what is pending hangs one step on it and goes on there.
 */
#include "handlers/streaming/source.h"

#include "core/status.h"

static pk_future fail_without_memory(pk_source *source)
{
    return pk_failed_with(&pk_status_no_memory);
}

pk_source pk_source_no_memory = {.next = fail_without_memory, .take = fail_without_memory};

/* ---- Reader ---- */

static pk_reader *reader_of(pk_source *source)
{
    return (pk_reader *) ((char *) source - offsetof(pk_reader, source));
}

static pk_future reader_next(pk_source *source)
{
    return pk_reader_read(reader_of(source));
}

static pk_future reader_take(pk_source *source)
{
    return pk_reader_take(reader_of(source));
}

static void reader_give_back(pk_source *source, const void *message)
{
    pk_reader_give_back(reader_of(source), message);
}

pk_source *pk_source_of_reader(pk_reader *reader)
{
    reader->source =
        (pk_source){.next = reader_next, .take = reader_take, .give_back = reader_give_back};
    return &reader->source;
}

/* ---- Array, repeat, tick: messages that stay ---- */

struct array {
    pk_source source;
    const void *const *at, *const *end;
};

static pk_future array_next(pk_source *source)
{
    struct array *array = (struct array *) source;
    return pk_done(array->at < array->end ? *array->at++ : NULL);
}

pk_source *pk_source_of_array(pk_call *call, const void *const *messages, size_t count)
{
    struct array *array = PK_OPERATOR(call, struct array);
    if (!array)
        return &pk_source_no_memory;
    *array = (struct array){{.next = array_next, .take = array_next}, messages, messages + count};
    return &array->source;
}

struct repeat {
    pk_source source;
    const void *message;
};

static pk_future repeat_next(pk_source *source)
{
    return pk_done(((struct repeat *) source)->message);
}

pk_source *pk_source_repeat(pk_call *call, const void *message)
{
    struct repeat *repeat = PK_OPERATOR(call, struct repeat);
    if (!repeat)
        return &pk_source_no_memory;
    *repeat = (struct repeat){{.next = repeat_next, .take = repeat_next}, message};
    return &repeat->source;
}

struct tick {
    pk_source source;
    pk_call *call;
    const void *message;
    uint64_t interval; /* nanoseconds */
    uint64_t due;      /* of pk_loop_now */
};

static pk_future tick_next(pk_source *source);

static pk_future tick_due(const void *unused, void *arg)
{
    return tick_next(arg);
}

static pk_future tick_next(pk_source *source)
{
    struct tick *tick = (struct tick *) source;
    uint64_t now = pk_loop_now(tick->call->loop);
    if (now < tick->due) {
        uint64_t milliseconds = (tick->due - now + 999999) / 1000000;
        return pk_then(pk_sleep(&tick->call->scope, milliseconds), tick_due, tick);
    }
    tick->due += tick->interval;
    if (tick->due <= now)
        tick->due = now + tick->interval;
    return pk_done(tick->message);
}

pk_source *pk_source_tick(pk_call *call, uint64_t milliseconds, const void *message)
{
    struct tick *tick = PK_OPERATOR(call, struct tick);
    if (!tick)
        return &pk_source_no_memory;
    if (milliseconds == 0)
        milliseconds = 1;
    uint64_t interval =
        milliseconds < UINT64_MAX / 2000000 ? milliseconds * 1000000 : UINT64_MAX / 2;
    *tick = (struct tick){{.next = tick_next, .take = tick_next},
                          call,
                          message,
                          interval,
                          pk_loop_now(call->loop) + interval};
    return &tick->source;
}

/* ---- Limit ---- */

struct limit {
    pk_source source;
    pk_source *from;
    uint64_t left;
};

static pk_future limit_end(struct limit *limit)
{
    pk_source_cancel(limit->from);
    return pk_done(NULL);
}

static pk_future limit_next(pk_source *source)
{
    struct limit *limit = (struct limit *) source;
    if (PK_UNLIKELY(limit->left == 0))
        return limit_end(limit);
    limit->left--;
    return limit->from->next(limit->from);
}

static pk_future limit_take(pk_source *source)
{
    struct limit *limit = (struct limit *) source;
    if (PK_UNLIKELY(limit->left == 0))
        return limit_end(limit);
    limit->left--;
    return limit->from->take(limit->from);
}

static void limit_give_back(pk_source *source, const void *message)
{
    pk_source_give_back(((struct limit *) source)->from, message);
}

static void limit_cancel(pk_source *source)
{
    pk_source_cancel(((struct limit *) source)->from);
}

pk_source *pk_source_limit(pk_call *call, pk_source *from, uint64_t count)
{
    struct limit *limit = PK_OPERATOR(call, struct limit);
    if (!limit)
        return &pk_source_no_memory;
    *limit = (struct limit){{.next = limit_next,
                             .take = from->take ? limit_take : NULL,
                             .give_back = limit_give_back,
                             .cancel = limit_cancel},
                            from,
                            count};
    return &limit->source;
}

/* ---- Filter ---- */

struct filter {
    pk_source source;
    pk_source *from;
    pk_predicate *keep;
    void *arg;
};

static pk_future filter_next(pk_source *source);
static pk_future filter_take(pk_source *source);

static pk_future filter_came(const void *message, void *arg)
{
    struct filter *filter = arg;
    if (!message || filter->keep(message, filter->arg))
        return pk_done(message);
    return filter_next(&filter->source);
}

static pk_future filter_next(pk_source *source)
{
    struct filter *filter = (struct filter *) source;
    for (;;) {
        pk_future came = filter->from->next(filter->from);
        if (PK_UNLIKELY(came.state != PK_FUTURE_DONE))
            return pk_then(came, filter_came, filter);
        if (!came.pointer || filter->keep(came.pointer, filter->arg))
            return came;
    }
}

static pk_future filter_taken(const void *message, void *arg)
{
    struct filter *filter = arg;
    if (!message || filter->keep(message, filter->arg))
        return pk_done(message);
    pk_source_give_back(filter->from, message);
    return filter_take(&filter->source);
}

static pk_future filter_take(pk_source *source)
{
    struct filter *filter = (struct filter *) source;
    for (;;) {
        pk_future taken = filter->from->take(filter->from);
        if (PK_UNLIKELY(taken.state != PK_FUTURE_DONE))
            return pk_then(taken, filter_taken, filter);
        if (!taken.pointer || filter->keep(taken.pointer, filter->arg))
            return taken;
        pk_source_give_back(filter->from, taken.pointer);
    }
}

static void filter_give_back(pk_source *source, const void *message)
{
    pk_source_give_back(((struct filter *) source)->from, message);
}

static void filter_cancel(pk_source *source)
{
    pk_source_cancel(((struct filter *) source)->from);
}

pk_source *pk_source_filter(pk_call *call, pk_source *from, pk_predicate *keep, void *arg)
{
    struct filter *filter = PK_OPERATOR(call, struct filter);
    if (!filter)
        return &pk_source_no_memory;
    *filter = (struct filter){{.next = filter_next,
                               .take = from->take ? filter_take : NULL,
                               .give_back = filter_give_back,
                               .cancel = filter_cancel},
                              from,
                              keep,
                              arg};
    return &filter->source;
}

/* ---- Map ---- */

struct map {
    pk_source source;
    pk_source *from;
    pk_step *fn;
    void *arg;
};

static pk_future map_result(const void *result, void *arg)
{
    static const pk_status nothing = {PK_INTERNAL, PK_SLICE("a mapped message is NULL"), {NULL, 0}};
    return result ? pk_done(result) : pk_failed_with(&nothing);
}

static pk_future map_came(const void *message, void *arg)
{
    struct map *map = arg;
    if (PK_UNLIKELY(!message))
        return pk_done(NULL);
    pk_future mapped = map->fn(message, map->arg);
    if (PK_LIKELY(mapped.state == PK_FUTURE_DONE && mapped.pointer))
        return mapped;
    return pk_then(mapped, map_result, NULL);
}

static pk_future map_next(pk_source *source)
{
    struct map *map = (struct map *) source;
    pk_future came = map->from->next(map->from);
    if (PK_LIKELY(came.state == PK_FUTURE_DONE))
        return map_came(came.pointer, map);
    return pk_then(came, map_came, map);
}

static void map_cancel(pk_source *source)
{
    pk_source_cancel(((struct map *) source)->from);
}

pk_source *pk_source_map(pk_call *call, pk_source *from, pk_step *fn, void *arg)
{
    struct map *map = PK_OPERATOR(call, struct map);
    if (!map)
        return &pk_source_no_memory;
    *map = (struct map){{.next = map_next, .cancel = map_cancel}, from, fn, arg};
    return &map->source;
}

/* ---- Sinks ---- */

struct sink {
    pk_source *source;
    pk_writer *writer; /* pipe */
    pk_step *fn;       /* each */
    void *arg;
};

static pk_future sink_run(struct sink *sink, pk_future came);

static pk_future sink_came(const void *message, void *arg)
{
    return sink_run(arg, pk_done(message));
}

static pk_future sink_used(const void *unused, void *arg)
{
    struct sink *sink = arg;
    return sink_run(sink, sink->source->next(sink->source));
}

/* A plain loop over what is there; it goes on in a step only where something is pending. */
static pk_future sink_run(struct sink *sink, pk_future came)
{
    for (;;) {
        if (came.state != PK_FUTURE_DONE)
            return pk_then(came, sink_came, sink);
        if (!came.pointer)
            return came;
        pk_future used = sink->writer ? pk_writer_write(sink->writer, came.pointer)
                                      : sink->fn(came.pointer, sink->arg);
        if (used.state != PK_FUTURE_DONE)
            return pk_then(used, sink_used, sink);
        came = sink->source->next(sink->source);
    }
}

static pk_future sink_failed(const pk_status *status, void *arg)
{
    pk_source_cancel(((struct sink *) arg)->source);
    return pk_failed_with(status);
}

static pk_future drain(pk_call *call, struct sink into)
{
    struct sink *sink = PK_OPERATOR(call, struct sink);
    if (!sink) {
        pk_source_cancel(into.source);
        return pk_failed_with(&pk_status_no_memory);
    }
    *sink = into;
    return pk_recover(sink_run(sink, into.source->next(into.source)), sink_failed, sink);
}

pk_future pk_source_pipe(pk_source *source, pk_writer *writer)
{
    return drain(writer->call, (struct sink){.source = source, .writer = writer});
}

pk_future pk_source_each(pk_call *call, pk_source *source, pk_step *fn, void *arg)
{
    return drain(call, (struct sink){.source = source, .fn = fn, .arg = arg});
}
