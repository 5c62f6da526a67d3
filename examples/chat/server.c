/*
 * A chat room: every client that has joined hears what any of them says.
 *
 *     chat-server --listen 127.0.0.1:50052
 *
 * Each member has a queue between the room and its stream. A line is copied once for all of them.
 * A member who does not read falls behind until its queue is full, and is then put out of the room:
 * nobody else waits for it.
 */
#include <pekoe/operators.h>
#include <pekoe/pekoe.h>

#include "chat.pekoe.h"

#include <ev.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_BEHIND 64 /* that a member may be */

struct member {
    struct member *next, **previous;
    struct room *room;
    pk_queue *queue;
};

struct room {
    struct member *members;
};

/* ---- Lines, which all queues share ---- */

struct line {
    Chat__Line message;
    unsigned references;
    char texts[]; /* name and text */
};

static struct line *copy_line(const Chat__Line *said)
{
    size_t name = strlen(said->name) + 1, text = strlen(said->text) + 1;
    struct line *line = malloc(sizeof *line + name + text);
    if (!line)
        return NULL;
    *line = (struct line){.message = CHAT__LINE__INIT, .references = 1};
    line->message.name = memcpy(line->texts, said->name, name);
    line->message.text = memcpy(line->texts + name, said->text, text);
    return line;
}

static void drop_line(const void *message, void *unused)
{
    struct line *line = (struct line *) (uintptr_t) message;
    if (--line->references == 0)
        free(line);
}

/* ---- The room ---- */

/* Everybody hears it, the one who says it too. */
static pk_future say(const void *message, void *arg)
{
    static const pk_status too_slow = {
        PK_RESOURCE_EXHAUSTED, PK_SLICE("too many lines behind"), {NULL, 0}};
    struct member *speaker = arg;
    struct line *line = copy_line(message);
    for (struct member *m = speaker->room->members; line && m; m = m->next) {
        int r = pk_queue_try_push(m->queue, &line->message);
        if (r == 0)
            line->references++;
        else if (r == PK_ERR_LIMIT)
            pk_queue_end(m->queue, &too_slow);
    }
    if (line)
        drop_line(&line->message, NULL);
    return pk_done(NULL);
}

/* The member has ended its side: what is queued is still sent. */
static pk_future say_no_more(const void *unused, void *arg)
{
    pk_queue_end(((struct member *) arg)->queue, NULL);
    return pk_done(NULL);
}

static void leave(void *arg)
{
    struct member *member = arg;
    *member->previous = member->next;
    if (member->next)
        member->next->previous = member->previous;
    free(member);
}

static struct member *enter(struct room *room, pk_queue *queue)
{
    struct member *member = queue ? malloc(sizeof *member) : NULL;
    if (!member)
        return NULL;
    *member = (struct member){room->members, &room->members, room, queue};
    if (member->next)
        member->next->previous = &member->next;
    room->members = member;
    return member;
}

/* Listens and speaks at the same time: two loops, and the call ends with both. */
static pk_future join(void *self, pk_call *call, pk_reader *in, pk_writer *out)
{
    struct member *member = enter(self, pk_queue_new(call, LINES_BEHIND, drop_line, NULL));
    if (!member)
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "the room is full");
    if (pk_call_on_end(call, leave, member) < 0) {
        leave(member);
        return pk_failed(call, PK_RESOURCE_EXHAUSTED, "the room is full");
    }
    if (pk_writer_send_headers(out) < 0) /* tells the client that it is in */
        return pk_failed(call, PK_INTERNAL, "the response cannot begin");
    pk_future loops[] = {
        pk_then(pk_reader_each(in, say, member), say_no_more, member),
        pk_source_pipe(pk_queue_source(member->queue), out),
    };
    return pk_all(pk_call_scope(call), loops, 2);
}

static const chat_room_impl room_impl = {.join = join};

/* ---- The program ---- */

static void on_term(struct ev_loop *ev, ev_signal *watcher, int events)
{
    pk_detach(pk_server_stop(watcher->data, 1000));
    ev_signal_stop(ev, watcher);
}

int main(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "--listen") != 0) {
        fprintf(stderr, "usage: chat-server --listen ADDRESS\n");
        return 2;
    }
    struct room room = {NULL};
    pk_loop *loop = NULL;
    pk_server *server = NULL;
    const char *bound;
    int r = pk_loop_new(&loop, NULL);
    if (r == 0)
        r = pk_server_new(&server, loop, NULL);
    if (r == 0)
        r = chat_room_serve(server, &room_impl, &room);
    if (r == 0)
        r = pk_server_listen(server, argv[2], &bound);
    if (r < 0) {
        fprintf(stderr, "chat-server: %s: %s\n", argv[2],
                r == PK_ERR_SYSTEM ? strerror(errno) : pk_error_text(r));
        return 1;
    }
    ev_signal term;
    ev_signal_init(&term, on_term, SIGTERM);
    term.data = server;
    ev_signal_start(pk_loop_ev(loop), &term);
    printf("chat-server: listening on %s\n", bound);
    fflush(stdout);
    pk_loop_run(loop);
    pk_server_free(server);
    pk_loop_free(loop);
    return 0;
}
