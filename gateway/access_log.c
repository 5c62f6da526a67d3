/* The access log: see access_log.h. */
#include "gateway/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SHOWN_MAX 512u /* bytes of a text that came from outside */
#define LINE_MAX_BYTES 12288u

/* ---- The file ---- */

/*
 * `create` is O_CREAT or 0. A pipe is none that the gateway waits for: opened for both, it keeps what
 * it has room for until somebody reads it. Also at a reopening, when its only reader may be the
 * descriptor that is closed.
 */
static int open_to_append(const char *file, int create)
{
    const int flags = O_APPEND | O_CLOEXEC | O_NONBLOCK;
    struct stat about;
    if (stat(file, &about) == 0 && S_ISFIFO(about.st_mode)) {
        int fd = open(file, O_RDWR | flags);
        if (fd >= 0 || errno != EACCES)
            return fd;
    }
    return open(file, O_WRONLY | flags | create, 0640);
}

static int open_file(const char *file)
{
    if (file && strcmp(file, "-") == 0)
        return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    return open_to_append(file ? file : "/dev/null", O_CREAT);
}

int gateway_access_log_open(gateway_access_log *log, const char *file)
{
    log->fd = open_file(file);
    return log->fd < 0 ? PK_ERR_SYSTEM : 0;
}

int gateway_access_log_reopen(gateway_access_log *log, const char *file)
{
    int fd = open_file(file);
    if (fd < 0)
        return PK_ERR_SYSTEM;
    /* Other threads write to the number meanwhile: each line goes to one file or the other. */
    int r = dup3(fd, log->fd, O_CLOEXEC);
    int error = errno;
    close(fd);
    errno = error;
    return r < 0 ? PK_ERR_SYSTEM : 0;
}

int gateway_access_log_check(const char *file)
{
    if (!file || strcmp(file, "-") == 0)
        return 0;
    int fd = open_to_append(file, 0);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno != ENOENT)
        return PK_ERR_SYSTEM;
    /* It is made when the gateway starts, in a folder that has to be there. */
    const char *slash = strrchr(file, '/');
    char *folder = slash ? strndup(file, (size_t) (slash - file) + 1) : strdup(".");
    int r = folder ? faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) : -1;
    int error = errno;
    free(folder);
    errno = error;
    return r < 0 ? PK_ERR_SYSTEM : 0;
}

void gateway_access_log_close(gateway_access_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}

/* As many whole lines as a pipe takes in one piece or not at all; one line at least. */
static size_t lines_for_one_write(const char *bytes, size_t length)
{
    const char *end = length > PIPE_BUF ? memrchr(bytes, '\n', PIPE_BUF) : NULL;
    if (length > PIPE_BUF && !end)
        end = memchr(bytes, '\n', length);
    return end ? (size_t) (end + 1 - bytes) : length;
}

void gateway_access_log_flush(gateway_log_buffer *buffer)
{
    const char *at = buffer->bytes;
    while (buffer->length > 0) {
        ssize_t written = write(buffer->log->fd, at, lines_for_one_write(at, buffer->length));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break; /* a full disk, or a pipe that nobody reads, costs lines and not calls */
        at += written;
        buffer->length -= (size_t) written;
    }
    buffer->length = 0;
}

/* ---- Lines ---- */

typedef struct log_line {
    char bytes[LINE_MAX_BYTES];
    size_t length;
} log_line;

static void put(log_line *line, const char *format, ...) PK_PRINTF(2, 3);
static void put(log_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(line->bytes + line->length, sizeof line->bytes - line->length, format, arguments);
    va_end(arguments);
    if (length > 0 && (size_t) length < sizeof line->bytes - line->length)
        line->length += (size_t) length;
}

/* What is around a text. */
typedef enum surroundings { IN_A_WORD, IN_QUOTES, IN_JSON } surroundings;

/* What came from outside, so that it stays one word, what two quotes hold, or a string of JSON. */
static void put_escaped(log_line *line, pk_slice text, surroundings where)
{
    size_t shown = text.length < SHOWN_MAX ? text.length : SHOWN_MAX;
    for (size_t i = 0; i < shown; i++) {
        uint8_t c = text.bytes[i];
        bool splits = c == ' ' && where == IN_A_WORD;
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || splits)
            put(line, where == IN_JSON ? "\\u%04x" : "\\x%02x", c);
        else
            put(line, "%c", c);
    }
}

static pk_slice slice(const char *text)
{
    return (pk_slice){(const uint8_t *) text, strlen(text)};
}

/* "2026-11-30T21:00:00.123Z" */
static void put_time(log_line *line)
{
    struct timespec now;
    struct tm parts;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    put(line, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static void put_text(log_line *line, const gateway_log_entry *entry)
{
    const gateway_tally *tally = entry->tally;
    put_time(line);
    put(line, " %s %s ", entry->peer, entry->protocol);
    put_escaped(line, slice(entry->method), IN_A_WORD);
    put(line, " %s %.3fms in=%llu/%lluB out=%llu/%lluB \"", pk_code_name(tally->code),
        (double) entry->nanoseconds / 1e6, (unsigned long long) tally->received_messages,
        (unsigned long long) tally->received_bytes, (unsigned long long) tally->sent_messages,
        (unsigned long long) tally->sent_bytes);
    put_escaped(line, entry->agent, IN_QUOTES);
    put(line, "\"\n");
}

static void put_json(log_line *line, const gateway_log_entry *entry)
{
    const gateway_tally *tally = entry->tally;
    put(line, "{\"time\":\"");
    put_time(line);
    put(line, "\",\"peer\":\"%s\",\"protocol\":\"%s\",\"method\":\"", entry->peer, entry->protocol);
    put_escaped(line, slice(entry->method), IN_JSON);
    put(line,
        "\",\"code\":%d,\"status\":\"%s\",\"duration_ms\":%.3f,\"received_messages\":%llu,"
        "\"received_bytes\":%llu,\"sent_messages\":%llu,\"sent_bytes\":%llu,\"agent\":\"",
        (int) tally->code, pk_code_name(tally->code), (double) entry->nanoseconds / 1e6,
        (unsigned long long) tally->received_messages, (unsigned long long) tally->received_bytes,
        (unsigned long long) tally->sent_messages, (unsigned long long) tally->sent_bytes);
    put_escaped(line, entry->agent, IN_JSON);
    if (entry->trace.length > 0) {
        put(line, "\",\"traceparent\":\"");
        put_escaped(line, entry->trace, IN_JSON);
    }
    put(line, "\"}\n");
}

void gateway_access_log_add(gateway_log_buffer *buffer, gateway_log_format format,
                            const gateway_log_entry *entry)
{
    log_line line;
    line.length = 0;
    if (format == GATEWAY_LOG_JSON)
        put_json(&line, entry);
    else
        put_text(&line, entry);
    if (line.length == 0 || line.bytes[line.length - 1] != '\n')
        return; /* it cannot be too long: see SHOWN_MAX */
    if (buffer->length + line.length > sizeof buffer->bytes)
        gateway_access_log_flush(buffer);
    memcpy(buffer->bytes + buffer->length, line.bytes, line.length);
    buffer->length += line.length;
}
