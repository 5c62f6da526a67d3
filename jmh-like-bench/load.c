/*
 * A load generator for gRPC over h2c that costs little: header blocks are prepared once, replies are
 * scanned frame by frame and only counted. A server is measured by its own CPU time per request, so
 * what matters is that this program is never the limit.
 *
 *     pekoe-load --connect 127.0.0.1:PORT --path /pkg.Service/Method [options]
 *
 * The first reply of each connection is looked at in full (HPACK by nghttp2): HTTP status 200,
 * grpc-status 0. All further ones must have as many DATA bytes and end the stream.
 */
#include <nghttp2/nghttp2.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FRAME_HEAD 9
#define INPUT (256u << 10)
#define BODY_MAX (1u << 20)
#define BUCKETS 512 /* of the latency histogram: 16 per power of two, from 1 us */

enum {
    DATA = 0,
    HEADERS = 1,
    RST_STREAM = 3,
    SETTINGS = 4,
    PING = 6,
    GOAWAY = 7,
    WINDOW_UPDATE = 8
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

static struct {
    struct sockaddr_in address;
    const char *path;
    unsigned connections, streams;
    uint64_t requests; /* after the warm-up */
    uint64_t warm_up;
    uint8_t *body; /* of a request: messages with their prefixes */
    size_t body_length;
    int server; /* process whose CPU time is read; 0: none */
    bool echo;  /* the floor: the peer sends back what it gets, 48 bytes for 37 */
} options = {.connections = 1, .streams = 1, .requests = 100000, .warm_up = 1000};

static struct {
    uint64_t started, finished; /* requests */
    uint64_t messages_bytes;    /* of DATA */
    uint64_t latency[BUCKETS];
} total;

static void fail(const char *what)
{
    fprintf(stderr, "pekoe-load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static void refuse(const char *why)
{
    errno = 0;
    fail(why);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000 + (uint64_t) time.tv_nsec;
}

/* ---- The server's CPU time ---- */

/* Nanoseconds that all threads of the process have run, user and system. */
static uint64_t cpu_of(int process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    if (!tasks)
        fail("the server's /proc entry");
    uint64_t sum = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char file[sizeof path + sizeof task->d_name + 16];
        snprintf(file, sizeof file, "%s/%s/schedstat", path, task->d_name);
        FILE *stat = task->d_name[0] == '.' ? NULL : fopen(file, "r");
        unsigned long long ran;
        if (stat && fscanf(stat, "%llu", &ran) == 1)
            sum += ran;
        if (stat)
            fclose(stat);
    }
    closedir(tasks);
    return sum;
}

/* ---- Connections ---- */

struct stream {
    uint64_t sent; /* nanoseconds */
    size_t bytes;  /* of DATA so far */
    bool open;
};

struct connection {
    int fd;
    unsigned open; /* streams */
    uint32_t next_id;
    struct stream *streams; /* by id / 2, modulo a power of two */
    uint32_t mask;
    uint8_t *input;
    size_t have;
    uint8_t *output;
    size_t output_start, output_end, output_capacity;
    nghttp2_hd_inflater *inflater; /* until the first reply was looked at */
    bool saw_200, saw_ok;
    bool indexed; /* the fields are in the peer's dynamic table */
};

static size_t expected_bytes; /* DATA of one reply; 0 until the first has come */

static void put(struct connection *one, const void *bytes, size_t length)
{
    if (one->output_end + length > one->output_capacity) {
        memmove(one->output, one->output + one->output_start, one->output_end - one->output_start);
        one->output_end -= one->output_start;
        one->output_start = 0;
        while (one->output_end + length > one->output_capacity)
            one->output_capacity *= 2;
        one->output = realloc(one->output, one->output_capacity);
        if (!one->output)
            fail("memory");
    }
    memcpy(one->output + one->output_end, bytes, length);
    one->output_end += length;
}

static void put_frame_head(struct connection *one, size_t length, uint8_t type, uint8_t flags,
                           uint32_t id)
{
    uint8_t head[FRAME_HEAD] = {
        (uint8_t) (length >> 16), (uint8_t) (length >> 8), (uint8_t) length,    type,        flags,
        (uint8_t) (id >> 24),     (uint8_t) (id >> 16),    (uint8_t) (id >> 8), (uint8_t) id};
    put(one, head, sizeof head);
}

/* A literal field that enters the dynamic table; `name` 0 to 61 is a static name, else text. */
static size_t literal(uint8_t *out, unsigned static_name, const char *name, const char *value)
{
    size_t at = 0;
    out[at++] = (uint8_t) (0x40 | static_name);
    if (!static_name) {
        out[at++] = (uint8_t) strlen(name);
        memcpy(out + at, name, strlen(name));
        at += strlen(name);
    }
    out[at++] = (uint8_t) strlen(value);
    memcpy(out + at, value, strlen(value));
    return at + strlen(value);
}

/* :method POST and :scheme http are static; the other five fields are indexed from then on. */
static size_t header_block(struct connection *one, uint8_t *out)
{
    size_t at = 0;
    out[at++] = 0x83;
    out[at++] = 0x86;
    if (one->indexed) {
        for (uint8_t i = 0; i < 5; i++)
            out[at++] = (uint8_t) (0x80 | (66 - i)); /* 62 is the newest entry */
        return at;
    }
    at += literal(out + at, 4, NULL, options.path);
    at += literal(out + at, 1, NULL, "localhost");
    at += literal(out + at, 31, NULL, "application/grpc");
    at += literal(out + at, 0, "te", "trailers");
    at += literal(out + at, 58, NULL, "pekoe-load/1");
    one->indexed = true;
    return at;
}

static void start_request(struct connection *one, uint64_t time)
{
    if (options.echo) {
        static const uint8_t bytes[37];
        put(one, bytes, sizeof bytes);
    } else {
        uint8_t block[512];
        size_t length = header_block(one, block);
        put_frame_head(one, length, HEADERS, END_HEADERS, one->next_id);
        put(one, block, length);
        size_t sent = 0;
        do {
            size_t part = options.body_length - sent < 16384 ? options.body_length - sent : 16384;
            bool last = sent + part == options.body_length;
            put_frame_head(one, part, DATA, last ? END_STREAM : 0, one->next_id);
            put(one, options.body + sent, part);
            sent += part;
        } while (sent < options.body_length);
    }
    one->streams[one->next_id / 2 & one->mask] = (struct stream){.sent = time, .open = true};
    one->next_id += 2;
    one->open++;
    total.started++;
}

static void start_requests(struct connection *one, uint64_t limit)
{
    if (one->open == options.streams || total.started >= limit)
        return;
    uint64_t time = now();
    /* A server with several threads may leave an old stream behind: its place must be free again. */
    while (one->open < options.streams && total.started < limit &&
           (options.echo || !one->streams[one->next_id / 2 & one->mask].open))
        start_request(one, time);
}

static void flush(struct connection *one)
{
    while (one->output_start < one->output_end) {
        ssize_t sent = send(one->fd, one->output + one->output_start,
                            one->output_end - one->output_start, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EAGAIN)
                return;
            fail("send");
        }
        one->output_start += (size_t) sent;
    }
    one->output_start = one->output_end = 0;
}

/* ---- Replies ---- */

static void count_latency(uint64_t nanoseconds)
{
    uint64_t us16 = nanoseconds * 16 / 1000;
    unsigned bucket = 0;
    if (us16 >= 16) {
        unsigned power = 63 - (unsigned) __builtin_clzll(us16) - 4;
        bucket = power * 16 + (unsigned) (us16 >> power) - 16;
    }
    total.latency[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
}

static double latency_at(double share)
{
    uint64_t sum = 0, all = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        all += total.latency[i];
    for (unsigned i = 0; i < BUCKETS; i++) {
        sum += total.latency[i];
        if ((double) sum >= share * (double) all)
            return (double) ((uint64_t) (16 + i % 16) << i / 16) / 16;
    }
    return 0;
}

static void finish_request(struct connection *one, struct stream *stream, uint64_t time)
{
    if (expected_bytes == 0)
        expected_bytes = stream->bytes;
    if (stream->bytes != expected_bytes)
        refuse("a reply has another length than the first");
    stream->open = false;
    one->open--;
    total.finished++;
    if (total.finished > options.warm_up)
        count_latency(time - stream->sent);
}

static void look_at_fields(struct connection *one, const uint8_t *block, size_t length, bool ended)
{
    for (;;) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(one->inflater, &field, &flags, block, length, 1);
        if (used < 0)
            refuse("a header block that is no HPACK");
        block += used;
        length -= (size_t) used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            if (field.namelen == 7 && !memcmp(field.name, ":status", 7))
                one->saw_200 = field.valuelen == 3 && !memcmp(field.value, "200", 3);
            if (field.namelen == 11 && !memcmp(field.name, "grpc-status", 11))
                one->saw_ok = field.valuelen == 1 && field.value[0] == '0';
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(one->inflater);
    if (!ended)
        return;
    if (!one->saw_200 || !one->saw_ok)
        refuse("the first reply is not HTTP 200 with grpc-status 0");
    nghttp2_hd_inflate_del(one->inflater);
    one->inflater = NULL;
}

static void handle_frame(struct connection *one, const uint8_t *frame, size_t length, uint64_t time)
{
    uint8_t type = frame[3], flags = frame[4];
    uint32_t id = (uint32_t) (frame[5] & 127) << 24 | (uint32_t) frame[6] << 16 |
                  (uint32_t) frame[7] << 8 | frame[8];
    struct stream *stream = &one->streams[id / 2 & one->mask];
    switch (type) {
    case DATA:
        stream->bytes += length;
        total.messages_bytes += length;
        break;
    case HEADERS:
        if (one->inflater)
            look_at_fields(one, frame + FRAME_HEAD, length, flags & END_STREAM);
        break;
    case SETTINGS:
        if (!(flags & ACK))
            put_frame_head(one, 0, SETTINGS, ACK, 0);
        return;
    case PING:
        if (!(flags & ACK)) {
            put_frame_head(one, 8, PING, ACK, 0);
            put(one, frame + FRAME_HEAD, 8);
        }
        return;
    case RST_STREAM:
        refuse("the server has reset a stream");
        return;
    case GOAWAY:
        refuse("the server goes away");
        return;
    default:
        return;
    }
    if (flags & END_STREAM)
        finish_request(one, stream, time);
}

static void receive(struct connection *one)
{
    ssize_t got = recv(one->fd, one->input + one->have, INPUT - one->have, MSG_DONTWAIT);
    if (got == 0)
        refuse("the server has closed a connection");
    if (got < 0) {
        if (errno == EAGAIN)
            return;
        fail("recv");
    }
    one->have += (size_t) got;
    uint64_t time = now();
    size_t at = 0;
    if (options.echo) {
        for (; one->have - at >= 48; at += 48)
            finish_request(one, &one->streams[0], time);
    } else {
        while (one->have - at >= FRAME_HEAD) {
            const uint8_t *frame = one->input + at;
            size_t length = (size_t) frame[0] << 16 | (size_t) frame[1] << 8 | frame[2];
            if (one->have - at < FRAME_HEAD + length)
                break;
            handle_frame(one, frame, length, time);
            at += FRAME_HEAD + length;
        }
    }
    memmove(one->input, one->input + at, one->have - at);
    one->have -= at;
}

static void open_connection(struct connection *one)
{
    static const uint8_t hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                   "\0\0\6\4\0\0\0\0\0\0\4\x3f\xff\xff\xff" /* stream window */
                                   "\0\0\4\x8\0\0\0\0\0\x7f\xff\x00\x00";   /* connection window */
    int yes = 1;
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (one->fd < 0 ||
        connect(one->fd, (struct sockaddr *) &options.address, sizeof options.address) < 0)
        fail("connect");
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    uint32_t places = 1024;
    while (places < 8 * options.streams)
        places *= 2;
    one->streams = calloc(places, sizeof *one->streams);
    one->mask = options.echo ? 0 : places - 1;
    one->input = malloc(INPUT);
    one->output_capacity = 65536;
    one->output = malloc(one->output_capacity);
    one->next_id = 1;
    if (!one->streams || !one->input || !one->output || nghttp2_hd_inflate_new(&one->inflater) != 0)
        fail("memory");
    if (!options.echo)
        put(one, hello, sizeof hello - 1);
}

/* ---- The program ---- */

static void refuse_to_wait(const struct connection *all, uint64_t limit)
{
    unsigned open = 0, unsent = 0;
    for (unsigned i = 0; i < options.connections; i++) {
        open += all[i].open;
        unsent += all[i].output_end > all[i].output_start;
    }
    fprintf(stderr,
            "pekoe-load: nothing came for 10 seconds: %llu of %llu replies are here, %u calls are "
            "open, %u connections take no more bytes\n",
            (unsigned long long) total.finished, (unsigned long long) limit, open, unsent);
    exit(1);
}

static void run_until(struct connection *all, int epoll, uint64_t limit)
{
    for (unsigned i = 0; i < options.connections; i++) {
        start_requests(&all[i], limit);
        flush(&all[i]);
    }
    while (total.finished < limit) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, 10000);
        if (count == 0)
            refuse_to_wait(all, limit);
        for (int i = 0; i < count; i++) {
            struct connection *one = events[i].data.ptr;
            if (events[i].events & ~(unsigned) EPOLLOUT)
                receive(one);
            start_requests(one, limit);
            flush(one);
        }
    }
}

static void report(uint64_t begun, uint64_t cpu)
{
    double seconds = (double) (now() - begun) / 1e9;
    double requests = (double) options.requests;
    printf("requests=%.0f seconds=%.3f rate=%.0f bytes=%zu p50_us=%.1f p99_us=%.1f", requests,
           seconds, requests / seconds, expected_bytes, latency_at(0.5), latency_at(0.99));
    if (options.server)
        printf(" server_cpu_us=%.4f", (double) (cpu_of(options.server) - cpu) / 1e3 / requests);
    printf("\n");
}

static void read_body(const char *path)
{
    FILE *file = fopen(path, "rb");
    options.body = malloc(BODY_MAX);
    if (!file || !options.body)
        fail(path);
    options.body_length = fread(options.body, 1, BODY_MAX, file);
    fclose(file);
}

static const char usage[] =
    "usage: pekoe-load --connect 127.0.0.1:PORT --path /pkg.Service/Method [options]\n"
    "  --body FILE        the request's body: its messages with their 5-byte prefixes\n"
    "  --connections N    (1)          --streams N     at once on each connection (1)\n"
    "  --requests N       (100000)     --warm-up N     requests before them (1000)\n"
    "  --server PID       report the CPU time per request of that process\n"
    "  --echo             the peer sends back 48 bytes for 37, no HTTP: the floor\n";

static void parse(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(name, "--echo")) {
            options.echo = true;
            continue;
        }
        i++;
        if (!strcmp(name, "--connect")) {
            const char *colon = strrchr(value, ':');
            options.address.sin_family = AF_INET;
            options.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            options.address.sin_port = htons(colon ? (uint16_t) atoi(colon + 1) : 0);
        } else if (!strcmp(name, "--path")) {
            options.path = value;
        } else if (!strcmp(name, "--body")) {
            read_body(value);
        } else if (!strcmp(name, "--connections")) {
            options.connections = (unsigned) atoi(value);
        } else if (!strcmp(name, "--streams")) {
            options.streams = (unsigned) atoi(value);
        } else if (!strcmp(name, "--requests")) {
            options.requests = strtoull(value, NULL, 10);
        } else if (!strcmp(name, "--warm-up")) {
            options.warm_up = strtoull(value, NULL, 10);
        } else if (!strcmp(name, "--server")) {
            options.server = atoi(value);
        } else {
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (!options.address.sin_port || !(options.path || options.echo) || !options.connections ||
        !options.streams || !options.requests || (options.path && strlen(options.path) > 127)) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    struct connection *all = calloc(options.connections, sizeof *all);
    int epoll = epoll_create1(0);
    if (!all || epoll < 0)
        fail("set-up");
    for (unsigned i = 0; i < options.connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        open_connection(&all[i]);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event) < 0)
            fail("epoll_ctl");
    }
    if (options.warm_up)
        run_until(all, epoll, options.warm_up);
    uint64_t begun = now();
    uint64_t cpu = options.server ? cpu_of(options.server) : 0;
    run_until(all, epoll, options.warm_up + options.requests);
    report(begun, cpu);
    return 0;
}
