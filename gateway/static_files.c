/* The files of a folder: see static_files.h. */
#include "gateway/static_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024u
#define FILE_BYTES (16u << 20)

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

/* Answers with the file's contents. */
static void send_file(pk_http *http, int fd, const struct stat *about, const char *type)
{
    char tag[64];
    snprintf(tag, sizeof tag, "\"%llx-%llx\"",
             (unsigned long long) about->st_mtim.tv_nsec ^
                 (unsigned long long) about->st_mtim.tv_sec << 20,
             (unsigned long long) about->st_size);
    if (pk_http_add_field(http, "etag", tag) < 0 ||
        pk_http_add_field(http, "cache-control", "no-cache") < 0 ||
        pk_http_add_field(http, "x-content-type-options", "nosniff") < 0) {
        answer(http, 503, "out of memory\n");
        return;
    }
    if (is(pk_http_field(http, "if-none-match"), tag)) {
        (void) !pk_http_reply(http, 304, NULL, NULL, 0);
        return;
    }
    size_t size = (size_t) about->st_size, length = 0;
    char *bytes = about->st_size <= (off_t) FILE_BYTES ? malloc(size + 1) : NULL;
    ssize_t got = bytes ? 1 : -1;
    while (got > 0 && length < size) {
        got = read(fd, bytes + length, size - length);
        length += got > 0 ? (size_t) got : 0;
    }
    if (length == size && got >= 0)
        (void) !pk_http_reply(http, 200, type, bytes, length);
    else
        answer(http, 500, "the file cannot be read\n");
    free(bytes);
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
    if (fd < 0 || fstat(fd, &about) < 0)
        answer(http, 404, "not found\n");
    else if (S_ISDIR(about.st_mode))
        redirect(http, target);
    else if (S_ISREG(about.st_mode))
        send_file(http, fd, &about, type);
    else
        answer(http, 404, "not found\n");
    if (fd >= 0)
        close(fd);
}
