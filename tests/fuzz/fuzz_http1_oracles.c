/*
 * transport/http1_parser.c beside two parsers that nobody here wrote: http-parser and llhttp.
 *
 * A request that is taken must be taken by both, with the same method, target, fields, body,
 * trailers and, above all, the same end: where the next request begins is what smuggling is about.
 * What is refused, the others may take for the reasons below only. docs/http1.md has both lists.
 */
#include "../support/http1_oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Refused here, taken by one of the others at least. */
static const char *const stricter[] = {
    "a line ends in LF without CR",
    "a line has a CR or a NUL within",
    "a line of a chunk does not end in CR and LF",
    "there is more than one empty line before the request",
    "the request line has no three parts",
    "the request line has no version",
    "the version is neither HTTP/1.0 nor HTTP/1.1",
    "the target has characters that it may not have",
    "the target is not a path: this is no proxy",
    "the method belongs to HTTP/2",
    "there is no field host",
    "there are two fields host",
    "the host is not valid",
    "a field goes on on a second line",
    "a field's name is not valid",
    "a field's value has control characters",
    "a field may not stand in trailers",
    "the expectation is not known",
    "the transfer coding is not known",
    "there are two fields transfer-encoding",
    "HTTP/1.0 has no transfer-encoding",
    "content-length is no number",
    "a chunk is longer than its size",
    "a chunk's size is no number",
    "a chunk's size has too many digits",
    "a chunk's extension has control characters",
    "a chunk's extensions are too long",
};

/* Taken here, refused by one of the others: its error. */
static const char *const wider[] = {
    "HPE_INVALID_METHOD", /* they have a list of methods */
    "HPE_STRICT",         /* llhttp looks at the grammar of extensions, which are skipped here */
    "HPE_INVALID_CHUNK_SIZE", /* and llhttp takes no second extension behind one with a value */
    /* http-parser takes "transfer-encodingx" for transfer-encoding, likewise content-length. */
    "HPE_INVALID_TRANSFER_ENCODING",
    "HPE_UNEXPECTED_CONTENT_LENGTH",
    "HPE_INVALID_CONTENT_LENGTH",
};

static bool listed(const char *const *list, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], text) == 0)
            return true;
    }
    return false;
}

#define LISTED(list, text) listed(list, sizeof(list) / sizeof *(list), text)

static void fail(const char *name, const char *what, const struct reading *ours,
                 const struct reading *theirs)
{
    static const char *const ends[] = {"incomplete", "complete", "refused"};
    fprintf(stderr, "%s: %s\nours: %s, %zu eaten, %s\n%s\ntheirs: %s, %zu eaten, %s\n%s\n", name,
            what, ends[ours->end], ours->eaten, ours->why ? ours->why : "", ours->text,
            ends[theirs->end], theirs->eaten, theirs->why ? theirs->why : "", theirs->text);
    abort();
}

/* Whether the line end that is missing would be refused for a listed reason. */
static bool refused_with_lf(const uint8_t *bytes, size_t length)
{
    struct reading longer;
    uint8_t *copy = malloc(length + 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, length);
    copy[length] = '\n';
    reading_of(&longer, copy, length + 1, length + 1, 65536);
    bool refused = longer.end == READING_REFUSED && LISTED(stricter, longer.why);
    reading_done(&longer);
    free(copy);
    return refused;
}

static void compare(const char *name, oracle *ask, const struct reading *ours, const uint8_t *bytes,
                    size_t length)
{
    struct reading theirs;
    ask(&theirs, bytes, length);
    if (ours->end == READING_REFUSED) {
        if (theirs.end == READING_COMPLETE && !LISTED(stricter, ours->why))
            fail(name, "a refusal that is not listed", ours, &theirs);
    } else if (ours->end == READING_INCOMPLETE) {
        /* They are content with a CR, this one waits for its LF. */
        if (theirs.end == READING_COMPLETE && !refused_with_lf(bytes, length))
            fail(name, "theirs is complete", ours, &theirs);
    } else if (theirs.end != READING_COMPLETE) {
        if (theirs.end == READING_INCOMPLETE || !LISTED(wider, theirs.why))
            fail(name, "only ours is complete", ours, &theirs);
    } else if (ours->eaten != theirs.eaten) {
        fail(name, "the requests end at different places", ours, &theirs);
    } else if (ours->length != theirs.length ||
               memcmp(ours->text, theirs.text, ours->length) != 0) {
        fail(name, "the requests differ", ours, &theirs);
    }
    reading_done(&theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool complete = true;
    while (complete && size > 0) {
        struct reading ours;
        reading_of(&ours, data, size, size, 65536);
        compare("http-parser", oracle_http_parser, &ours, data, size);
        compare("llhttp", oracle_llhttp, &ours, data, size);
        complete = ours.end == READING_COMPLETE;
        data += ours.eaten;
        size -= ours.eaten;
        reading_done(&ours);
    }
    return 0;
}
