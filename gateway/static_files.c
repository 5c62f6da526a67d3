/* The files of a folder: see static_files.h. */
#include "gateway/static_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024u

/* ---- Answers ---- */

static void answer(pk_http *http, unsigned status, const char *text)
{
    (void) !pk_http_reply(http, status, "text/plain", text, strlen(text));
}

static bool is(pk_slice text, const char *other)
{
    return text.length == strlen(other) && memcmp(text.bytes, other, text.length) == 0;
}

static const char *type_of(const char *path)
{
    static const char *const types[][2] = {
        {"html", "text/html; charset=utf-8"},
        {"css", "text/css; charset=utf-8"},
        {"js", "text/javascript; charset=utf-8"},
        {"mjs", "text/javascript; charset=utf-8"},
        {"json", "application/json"},
        {"map", "application/json"},
        {"wasm", "application/wasm"},
        {"svg", "image/svg+xml"},
        {"png", "image/png"},
        {"jpg", "image/jpeg"},
        {"jpeg", "image/jpeg"},
        {"gif", "image/gif"},
        {"webp", "image/webp"},
        {"ico", "image/vnd.microsoft.icon"},
        {"woff2", "font/woff2"},
        {"txt", "text/plain; charset=utf-8"},
        {"proto", "text/plain; charset=utf-8"},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcasecmp(dot + 1, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

/* ---- Paths ---- */

static int digit_of(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The path of a target, without its query, percent-decoded. False where it is none. */
static bool decode_path(pk_slice target, char path[PATH_BYTES])
{
    size_t length = 0;
    for (size_t i = 0; i < target.length && target.bytes[i] != '?'; i++) {
        uint8_t c = target.bytes[i];
        /* HTTP/2 carries such bytes, but in a path they stand percent-encoded (RFC 3986). */
        if (c <= ' ' || c >= 0x7f || c == '#')
            return false;
        if (c == '%') {
            int high = i + 2 < target.length ? digit_of(target.bytes[i + 1]) : -1;
            int low = high < 0 ? -1 : digit_of(target.bytes[i + 2]);
            if (low < 0)
                return false;
            c = (uint8_t) (high << 4 | low);
            i += 2;
        }
        if (c < 0x20 || c == 0x7f || c == '\\' || length + 1 >= PATH_BYTES)
            return false;
        path[length++] = (char) c;
    }
    path[length] = '\0';
    return path[0] == '/';
}

/*
 * Opens what lies at the path, one folder after the other, so that no name and no link leads out.
 * Negative where there is nothing. The path is changed.
 */
static int open_below(const char *folder, char *path)
{
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (char *rest = path + 1; at >= 0 && *rest;) {
        char *name = strsep(&rest, "/");
        bool is_last = !rest || *rest == '\0';
        bool is_named = *name && *name != '.';
        int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (is_last ? 0 : O_DIRECTORY);
        int next = is_named ? openat(at, name, flags) : -1;
        close(at);
        at = next;
        if (is_last)
            break;
    }
    return at;
}

int gateway_static_check(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return PK_ERR_SYSTEM;
    close(fd);
    return 0;
}

/* ---- Files ---- */

/* One that is on its way to a client. */
struct leaving {
    int fd;
    struct timespec changed; /* when it was found */
};

static atomic_uint leaving_count; /* of all threads */

/* Clients that do not read must not take the descriptors that new connections need. */
static bool may_leave(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return true;
    return atomic_load(&leaving_count) < limit.rlim_cur / 4;
}

/* A file that is changed while it leaves would come to something that it never was. */
static ptrdiff_t read_leaving(void *self, void *bytes, size_t room)
{
    const struct leaving *leaving = self;
    struct stat now;
    ssize_t got;
    do
        got = read(leaving->fd, bytes, room);
    while (got < 0 && errno == EINTR);
    if (got <= 0 || fstat(leaving->fd, &now) < 0 || now.st_mtim.tv_sec != leaving->changed.tv_sec ||
        now.st_mtim.tv_nsec != leaving->changed.tv_nsec)
        return -1;
    return got;
}

static void close_leaving(void *self)
{
    struct leaving *leaving = self;
    atomic_fetch_sub(&leaving_count, 1);
    close(leaving->fd);
    free(leaving);
}

/* What every answer about a file has. */
static int add_fields(pk_http *http, const char *tag)
{
    int r = pk_http_add_field(http, "etag", tag);
    if (r == 0)
        r = pk_http_add_field(http, "cache-control", "no-cache");
    return r < 0 ? r : pk_http_add_field(http, "x-content-type-options", "nosniff");
}

/* Answers with the file's contents. */
static void send_file(pk_http *http, int fd_take, const struct stat *about, const char *type)
{
    char tag[64];
    snprintf(tag, sizeof tag, "\"%llx-%llx\"",
             (unsigned long long) about->st_mtim.tv_nsec ^
                 (unsigned long long) about->st_mtim.tv_sec << 20,
             (unsigned long long) about->st_size);
    bool is_known = is(pk_http_field(http, "if-none-match"), tag);
    struct leaving *leaving = is_known ? NULL : malloc(sizeof *leaving);
    if (!is_known && !may_leave()) {
        answer(http, 503, "too many files wait for their clients\n");
    } else if ((!is_known && !leaving) || add_fields(http, tag) < 0) {
        answer(http, 503, "out of memory\n");
    } else if (is_known) {
        (void) !pk_http_reply(http, 304, NULL, NULL, 0);
    } else {
        *leaving = (struct leaving){fd_take, about->st_mtim};
        atomic_fetch_add(&leaving_count, 1);
        (void) !pk_http_reply_body(http, 200, type, (uint64_t) about->st_size,
                                   &(pk_http_body){read_leaving, close_leaving, leaving});
        return;
    }
    free(leaving);
    close(fd_take);
}

/* A folder that was named without a slash at its end: relative links on its page would go astray. */
static void redirect(pk_http *http, pk_slice target)
{
    char location[PATH_BYTES + 2];
    const uint8_t *query = memchr(target.bytes, '?', target.length);
    size_t length = query ? (size_t) (query - target.bytes) : target.length;
    /* "//host" would be another server's. */
    if (length >= PATH_BYTES || (length > 1 && target.bytes[1] == '/')) {
        answer(http, 404, "not found\n");
        return;
    }
    snprintf(location, sizeof location, "%.*s/", (int) length, (const char *) target.bytes);
    if (pk_http_add_field(http, "location", location) < 0)
        answer(http, 404, "not found\n");
    else
        answer(http, 301, "moved\n");
}

void gateway_static_serve(const char *folder, pk_http *http)
{
    char path[PATH_BYTES + sizeof "index.html"];
    pk_slice method = pk_http_method(http), target = pk_http_target(http);
    if (!is(method, "GET") && !is(method, "HEAD")) {
        (void) !pk_http_add_field(http, "allow", "GET, HEAD");
        answer(http, 405, "method not allowed\n");
        return;
    }
    if (!decode_path(target, path)) {
        answer(http, 400, "bad path\n");
        return;
    }
    if (path[strlen(path) - 1] == '/')
        strcat(path, "index.html");
    const char *type = type_of(path);
    struct stat about;
    int fd = open_below(folder, path);
    bool is_there = fd >= 0 && fstat(fd, &about) == 0;
    if (is_there && S_ISREG(about.st_mode)) {
        send_file(http, fd, &about, type);
        return;
    }
    if (is_there && S_ISDIR(about.st_mode))
        redirect(http, target);
    else
        answer(http, 404, "not found\n");
    if (fd >= 0)
        close(fd);
}
