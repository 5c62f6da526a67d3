/*
 * Required fields across the pieces of a message.
 *
 * A message may come in several pieces that are merged, and only the whole must have its required
 * fields. Almost every message is complete at once, so nothing is kept per message: a piece that
 * lacks a field adds an event to a log, and the log is judged when the root is through.
 *
 *   LACKS     a piece ended and these required fields were not in it
 *   AGAIN     another piece of the same message follows
 *   REPLACED  the message was dropped from its oneof, with all that is below it
 *
 * A piece without a LACKS event had them all.
 */
#include "marshalling/decoder.h"

#include <stdlib.h>
#include <string.h>

enum event_kind { LACKS, AGAIN, REPLACED };

struct event {
    void *message;
    uint64_t missing; /* of LACKS */
    unsigned word;    /* of LACKS: which 64 required fields `missing` is about */
    unsigned order;   /* of arrival; the kind is in the lowest two bits */
};

struct pk_required_log {
    struct event *events;
    size_t count;
    size_t capacity;
};

static bool add_event(pk_decoder *decoder, void *message, enum event_kind kind, unsigned word,
                      uint64_t missing)
{
    struct pk_required_log *log = decoder->required;
    if (!log) {
        void *piece;
        if (!pk_decoder_take(decoder, sizeof *log, &piece))
            return false;
        log = piece;
        memset(log, 0, sizeof *log);
        decoder->required = log;
    }
    if (log->count == log->capacity) {
        size_t capacity = log->capacity ? log->capacity * 2 : 8;
        void *events;
        if (!pk_decoder_take(decoder, capacity * sizeof(struct event), &events))
            return false;
        if (log->count > 0)
            memcpy(events, log->events, log->count * sizeof(struct event));
        log->events = events;
        log->capacity = capacity;
    }
    struct event *event = &log->events[log->count];
    event->message = message;
    event->missing = missing;
    event->word = word;
    event->order = (unsigned) log->count << 2 | (unsigned) kind;
    log->count++;
    return true;
}

bool pk_decode_lacks(pk_decoder *decoder, void *message, unsigned word, uint64_t missing)
{
    return add_event(decoder, message, LACKS, word, missing);
}

bool pk_decode_again(pk_decoder *decoder, void *message)
{
    return add_event(decoder, message, AGAIN, 0, 0);
}

bool pk_decode_replaced(pk_decoder *decoder, void *message)
{
    return !decoder->required || add_event(decoder, message, REPLACED, 0, 0);
}

static enum event_kind kind_of(const struct event *event)
{
    return (enum event_kind)(event->order & 3);
}

static int compare_events(const void *left, const void *right)
{
    const struct event *a = left;
    const struct event *b = right;
    if (a->message != b->message)
        return (uintptr_t) a->message < (uintptr_t) b->message ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Forgets every event of the message and of what is below it. Depth is bounded by the decode. */
static void forget(struct pk_required_log *log, const ProtobufCMessage *message)
{
    size_t low = 0;
    size_t high = log->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t) log->events[middle].message < (uintptr_t) message)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < log->count && log->events[low].message == message; low++)
        log->events[low].missing = 0;

    const ProtobufCMessageDescriptor *type = message->descriptor;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        const uint8_t *base = (const uint8_t *) message;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t count;
            ProtobufCMessage **children;
            memcpy(&count, base + field->quantifier_offset, sizeof count);
            memcpy(&children, base + field->offset, sizeof children);
            for (size_t k = 0; k < count; k++)
                forget(log, children[k]);
            continue;
        }
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            uint32_t which;
            memcpy(&which, base + field->quantifier_offset, sizeof which);
            if (which != field->id)
                continue;
        }
        ProtobufCMessage *child;
        memcpy(&child, base + field->offset, sizeof child);
        if (child)
            forget(log, child);
    }
}

/* Whether the events of one message, in order, leave a field out. */
static bool complete(const struct event *first, const struct event *behind)
{
    unsigned words = 0;
    for (const struct event *event = first; event < behind; event++) {
        if (kind_of(event) == LACKS && event->word >= words)
            words = event->word + 1;
    }
    for (unsigned word = 0; word < words; word++) {
        uint64_t missing = UINT64_MAX;
        uint64_t piece = 0;
        for (const struct event *event = first; event < behind; event++) {
            if (kind_of(event) == LACKS && event->word == word)
                piece = event->missing;
            if (kind_of(event) == AGAIN) {
                missing &= piece;
                piece = 0;
            }
        }
        if (missing & piece)
            return false;
    }
    return true;
}

bool pk_required_judge(pk_decoder *decoder)
{
    struct pk_required_log *log = decoder->required;
    size_t replaced_count = 0;
    for (size_t i = 0; i < log->count; i++)
        replaced_count += kind_of(&log->events[i]) == REPLACED;
    void **replaced = NULL;
    if (replaced_count > 0) {
        void *piece;
        if (!pk_decoder_take(decoder, replaced_count * sizeof *replaced, &piece))
            return false;
        replaced = piece;
        size_t next = 0;
        for (size_t i = 0; i < log->count; i++) {
            if (kind_of(&log->events[i]) == REPLACED)
                replaced[next++] = log->events[i].message;
        }
    }
    qsort(log->events, log->count, sizeof *log->events, compare_events);
    for (size_t i = 0; i < replaced_count; i++)
        forget(log, replaced[i]);
    for (size_t i = 0; i < log->count;) {
        size_t behind = i + 1;
        while (behind < log->count && log->events[behind].message == log->events[i].message)
            behind++;
        if (!complete(log->events + i, log->events + behind))
            return pk_decoder_fail(decoder, PK_ERR_MALFORMED,
                                   "message lacks one of its required fields");
        i = behind;
    }
    return true;
}
