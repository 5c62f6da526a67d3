/*
 * The floor under every server on nghttp2: one recv and one send for each connection that is
 * readable, and between them nghttp2 with a canned reply. Whatever the request says, HelloReply
 * "Hello, world" goes back with trailers. `nghttp2-floor PORT`.
 *
 * No routing, no checks of fields (nghttp2's own are off), no messages, no limits; what nghttp2
 * frees is kept by size and used again. What a server costs above this is its own.
 */
#include <nghttp2/nghttp2.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT 65536
#define OUTPUT (4u << 20)

static const uint8_t body[] = "\0\0\0\0\x0e"
                              "\x0a\x0c"
                              "Hello, world";

#define FIELD(name, value)                                                            \
    {                                                                                 \
        (uint8_t *) (name), (uint8_t *) (value), sizeof(name) - 1, sizeof(value) - 1, \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE              \
    }
static const nghttp2_nv head[] = {FIELD(":status", "200"),
                                  FIELD("content-type", "application/grpc")};
static const nghttp2_nv trailers[] = {FIELD("grpc-status", "0")};

/* ---- Memory: blocks of one size wait for the next of that size ---- */

#define KEPT_SIZE 16
#define KEPT_LISTS 64 /* up to 1,024 bytes */

struct block {
    size_t list; /* KEPT_LISTS: too large to be kept */
    struct block *next;
};

static struct block *kept[KEPT_LISTS];

static void *get(size_t size, void *user)
{
    size_t list = (size + KEPT_SIZE - 1) / KEPT_SIZE;
    struct block *block = list < KEPT_LISTS ? kept[list] : NULL;
    if (block) {
        kept[list] = block->next;
    } else {
        list = list < KEPT_LISTS ? list : KEPT_LISTS;
        block = malloc(sizeof *block + (list < KEPT_LISTS ? list * KEPT_SIZE : size));
        if (!block)
            return NULL;
        block->list = list;
    }
    return block + 1;
}

static void put(void *memory, void *user)
{
    struct block *block = memory ? (struct block *) memory - 1 : NULL;
    if (!block)
        return;
    if (block->list == KEPT_LISTS) {
        free(block);
        return;
    }
    block->next = kept[block->list];
    kept[block->list] = block;
}

static void *get_cleared(size_t count, size_t size, void *user)
{
    void *memory = get(count * size, user);
    return memory ? memset(memory, 0, count * size) : NULL;
}

static void *get_again(void *memory, size_t size, void *user)
{
    struct block *block = memory ? (struct block *) memory - 1 : NULL;
    if (block && block->list == KEPT_LISTS) { /* stays large; how large it was, realloc knows */
        block = realloc(block, sizeof *block + size);
        return block ? block + 1 : NULL;
    }
    void *larger = get(size, user);
    if (block && larger) {
        size_t had = block->list * KEPT_SIZE;
        memcpy(larger, memory, had < size ? had : size);
        put(memory, user);
    }
    return larger;
}

/* ---- The reply ---- */

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    memcpy(out, body, sizeof body - 1); /* nghttp2 asks for 16 KiB */
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    nghttp2_submit_trailer(session, id, trailers, 1);
    return sizeof body - 1;
}

static int reply(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    static const nghttp2_data_provider provider = {.read_callback = read_body};
    bool request = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (request && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        return nghttp2_submit_response(session, frame->hd.stream_id, head, 2, &provider);
    return 0;
}

/* ---- Connections ---- */

struct connection {
    int fd;
    nghttp2_session *session;
};

static nghttp2_session *open_session(void)
{
    static const nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000};
    static nghttp2_mem memory = {NULL, get, put, get_cleared, get_again};
    nghttp2_session *session = NULL;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, reply);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_no_http_messaging(option, 1);
    if (nghttp2_session_server_new3(&session, callbacks, NULL, option, &memory) == 0)
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &settings, 1);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return session;
}

static int send_all(int fd, const uint8_t *bytes, size_t length)
{
    for (size_t sent = 0; sent < length;) {
        ssize_t part = send(fd, bytes + sent, length - sent, MSG_NOSIGNAL);
        if (part <= 0)
            return -1;
        sent += (size_t) part;
    }
    return 0;
}

/* What nghttp2 has to say, in one piece. */
static int flush(struct connection *one)
{
    static uint8_t out[OUTPUT];
    size_t length = 0;
    const uint8_t *frame;
    ssize_t part;
    while ((part = nghttp2_session_mem_send(one->session, &frame)) > 0) {
        if (length + (size_t) part > sizeof out) {
            if (send_all(one->fd, out, length) < 0)
                return -1;
            length = 0;
        }
        memcpy(out + length, frame, (size_t) part);
        length += (size_t) part;
    }
    return part < 0 ? -1 : send_all(one->fd, out, length);
}

static void serve(struct connection *one)
{
    static uint8_t in[INPUT];
    ssize_t got = recv(one->fd, in, sizeof in, 0);
    if (got > 0 && nghttp2_session_mem_recv(one->session, in, (size_t) got) == got &&
        flush(one) == 0)
        return;
    close(one->fd);
    nghttp2_session_del(one->session);
    free(one);
}

static void take_connection(int epoll, int listener)
{
    int yes = 1;
    struct connection *one = calloc(1, sizeof *one);
    if (!one || (one->fd = accept(listener, NULL, NULL)) < 0 || !(one->session = open_session())) {
        perror("nghttp2-floor");
        exit(1);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    epoll_ctl(epoll, EPOLL_CTL_ADD, one->fd, &event);
}

int main(int argc, char **argv)
{
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t) atoi(argc > 1 ? argv[1] : "0"))};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *) &address, sizeof address) < 0 ||
        listen(listener, 511) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0) {
        perror("nghttp2-floor");
        return 1;
    }
    printf("serving on 127.0.0.1:%s\n", argv[1]);
    fflush(stdout);
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                serve(events[i].data.ptr);
            else
                take_connection(epoll, listener);
        }
    }
}
