#!/usr/bin/python3
"""What the client makes of servers that misbehave: faults.py CALLER. TAP on stdout.

The cases of gRPC's negative HTTP/2 tests (doc/http2-interop-test-descriptions.md), and the tables
of PROTOCOL-HTTP2.md and statuscodes.md.
"""
import socket
import sys
import threading
import time

from fault_calls import MAX_STREAMS, answer, call, codes, expect, main, one, test
from fault_server import HEAD, Server, message


# ---- Connections that end

@test
def goaway_sends_the_next_call_to_a_new_connection():
    def on_request(connection, stream):
        connection.reply(stream)
        connection.goaway(stream)
    server = Server(on_request)
    expect(codes(call(server, '--calls', 3, '--pause', 20)), ['OK'] * 3)
    expect(len(server.connections), 3, 'connections')
    expect(server.request_count, 3, 'requests')


@test
def streams_above_the_last_one_are_replayed_once():
    def on_request(connection, stream):
        if connection.number > 1:
            connection.reply(stream)
        elif len(connection.requests) == 3:
            connection.goaway(1)
            connection.flush()
            time.sleep(0.1)
            connection.reply(1)
    server = Server(on_request)
    expect(codes(call(server, '--calls', 3, '--parallel', 3)), ['OK'] * 3)
    expect(server.connections[0].requests, [1, 3, 5])
    expect(len(server.connections[1].requests), 2, 'replayed')


@test
def goaway_comes_with_the_highest_number_and_then_the_real_one():
    def on_request(connection, stream):
        if connection.number > 1:
            connection.reply(stream)
        elif len(connection.requests) == 2:
            connection.goaway(2**31 - 1)
            connection.flush()
            time.sleep(0.05)
            connection.goaway(1)
            connection.reply(1)
    server = Server(on_request)
    expect(codes(call(server, '--calls', 2, '--parallel', 2)), ['OK'] * 2)
    expect(len(server.connections[1].requests), 1, 'replayed')


@test
def a_connection_that_closes_fails_its_calls_and_the_next_one_is_new():
    def on_request(connection, stream):
        if connection.number == 1:
            connection.sock.shutdown(2)
        else:
            connection.reply(stream)
    server = Server(on_request)
    expect(codes(call(server, '--calls', 2)), ['UNAVAILABLE', 'OK'])
    expect(server.request_count, 2, 'requests')


# ---- Streams that are reset

@test
def a_refused_stream_is_sent_again_once():
    def refuse(times):
        def on_request(connection, stream):
            if connection.server.request_count <= times:
                connection.reset(stream, 7)
            else:
                connection.reply(stream)
        return on_request
    expect(one(refuse(1))[0], 'OK')
    expect(one(refuse(2))[0], 'UNAVAILABLE')


@test
def a_refused_stream_with_a_large_message_is_sent_again_whole():
    server = Server(lambda connection, stream: connection.reset(stream, 7)
                    if connection.server.request_count == 1 else connection.reply(stream))
    expect(codes(call(server, '--size', 200000)), ['OK'])


@test
def resets_map_to_codes():
    table = {0: 'INTERNAL', 1: 'INTERNAL', 2: 'INTERNAL', 3: 'INTERNAL', 4: 'INTERNAL',
             6: 'INTERNAL', 8: 'CANCELLED', 9: 'INTERNAL', 10: 'INTERNAL',
             11: 'RESOURCE_EXHAUSTED', 12: 'PERMISSION_DENIED'}
    for error, code in table.items():
        expect(one(lambda connection, stream, e=error: connection.reset(stream, e))[0], code, error)


@test
def rst_after_header():
    def on_request(connection, stream):
        connection.head(stream)
        connection.reset(stream, 0)
    expect(one(on_request)[0], 'INTERNAL')


@test
def rst_during_data():
    def on_request(connection, stream):
        connection.head(stream)
        connection.data(stream, message(bytes(1000))[:500])
        connection.reset(stream, 0)
    expect(one(on_request)[0], 'INTERNAL')


@test
def rst_after_data():
    def on_request(connection, stream):
        connection.head(stream)
        connection.data(stream, message())
        connection.reset(stream, 0)
    expect(one(on_request)[0], 'INTERNAL')


# ---- Limits and frames

@test
def ping_is_answered_each_time():
    def on_request(connection, stream):
        for i in range(5):
            connection.h2.ping(bytes([i] * 8))
        connection.reply(stream)
    server = Server(on_request)
    expect(codes(call(server, '--calls', 3, '--pause', 50)), ['OK'] * 3)
    assert server.connections[0].pings_acked >= 10, server.connections[0].pings_acked


@test
def max_streams_is_kept_and_calls_wait_for_places():
    server = Server(lambda connection, stream: connection.reply(stream), {MAX_STREAMS: 1})
    expect(codes(call(server, '--calls', 30, '--parallel', 10)), ['OK'] * 30)
    expect(server.connections[0].open_most, 1, 'streams at once')
    expect(len(server.connections), 1, 'connections')


@test
def max_streams_is_lowered_to_none_and_raised_again():
    def on_request(connection, stream):
        if len(connection.requests) == 10:
            connection.h2.update_settings({MAX_STREAMS: 0})
            connection.flush()
            for waiting in connection.requests:
                connection.reply(waiting)
            connection.flush()
            time.sleep(0.2)
            connection.server.at_pause = connection.server.request_count
            connection.h2.update_settings({MAX_STREAMS: 3})
        elif len(connection.requests) > 10:
            connection.reply(stream)
    server = Server(on_request, {MAX_STREAMS: 10})
    expect(codes(call(server, '--calls', 50, '--parallel', 50)), ['OK'] * 50)
    expect(server.at_pause, 10, 'requests while there was no place')


@test
def calls_that_wait_for_a_place_keep_their_deadline():
    server = Server(lambda connection, stream: None, {MAX_STREAMS: 1})
    expect(codes(call(server, '--calls', 3, '--parallel', 3, '--timeout', 200)),
           ['DEADLINE_EXCEEDED'] * 3)


@test
def data_frame_padding():
    body = message(b'\x0a\xa0\x9c\x01' + b'\x12\x9c\x9c\x01' + bytes(20000 - 4))

    def on_request(connection, stream):
        connection.head(stream)
        connection.left = body
        pump(connection, stream)

    def pump(connection, stream):
        while connection.left and connection.h2.local_flow_control_window(stream) >= 261:
            connection.data(stream, connection.left[:5], pad=254)
            connection.left = connection.left[5:]
            if not connection.left:
                connection.trailers(stream)
    server = Server(on_request, on_window=lambda connection: connection.requests
                    and pump(connection, connection.requests[-1]))
    expect(call(server, '--timeout', 20000)[0][:2], ['OK', '1'])


# ---- Responses that say the wrong thing

@test
def http_statuses_map_to_codes():
    table = {400: 'INTERNAL', 401: 'UNAUTHENTICATED', 403: 'PERMISSION_DENIED',
             404: 'UNIMPLEMENTED', 429: 'UNAVAILABLE', 502: 'UNAVAILABLE', 503: 'UNAVAILABLE',
             504: 'UNAVAILABLE', 500: 'UNKNOWN', 302: 'UNKNOWN'}
    for status, code in table.items():
        for body in b'', b'<html>sorry</html>':
            head = [(':status', str(status)), ('content-type', 'text/html')]
            expect(one(answer(head, body))[0], code, status)
    # A status of its own is what holds.
    head = [(':status', '503'), ('content-type', 'application/grpc'), ('grpc-status', '9')]
    expect(one(answer(head))[0], 'FAILED_PRECONDITION')


@test
def content_types_that_are_not_grpcs_are_refused():
    ok = [('grpc-status', '0')]
    for content_type in 'text/html', 'application/json', 'application/grpc-web', 'application/grpcfoo':
        head = [(':status', '200'), ('content-type', content_type)]
        expect(one(answer(head, message(), ok))[0], 'UNKNOWN', content_type)
    for content_type in 'application/grpc+proto', 'application/grpc;charset=utf-8', 'APPLICATION/GRPC':
        head = [(':status', '200'), ('content-type', content_type)]
        expect(one(answer(head, message(), ok))[0], 'OK', content_type)


@test
def statuses_that_are_missing_or_unreadable_are_unknown():
    expect(one(answer(HEAD, message()))[0], 'UNKNOWN', 'no trailers')
    expect(one(answer(HEAD, message(), [('x-other', '1')]))[0], 'UNKNOWN', 'no status')
    for status in 'abc', '', '-1', '99999999999', '1.5':
        expect(one(answer(HEAD, message(), [('grpc-status', status)]))[0], 'UNKNOWN', status)
    expect(one(answer(HEAD, message(), [('grpc-status', '17')]))[0], 'UNKNOWN', '17')


@test
def a_status_in_the_head_holds_even_before_a_body():
    head = HEAD + [('grpc-status', '5'), ('grpc-message', 'not%20here')]
    expect(one(answer(head)), ['NOT_FOUND', '0', 'not here'])
    expect(one(answer(head, message()))[0], 'NOT_FOUND')


@test
def a_unary_reply_with_no_message_or_two_is_unimplemented():
    ok = [('grpc-status', '0')]
    expect(one(answer(HEAD, b'', ok))[0], 'UNIMPLEMENTED', 'none')
    expect(one(answer(HEAD + ok))[0], 'UNIMPLEMENTED', 'trailers only')
    expect(one(answer(HEAD, message() + message(), ok))[0], 'UNIMPLEMENTED', 'two')


@test
def messages_that_cannot_be_read_are_internal():
    ok = [('grpc-status', '0')]
    expect(one(answer(HEAD, message(b'x' * 10)[:8], ok))[0], 'INTERNAL', 'cut')
    expect(one(answer(HEAD, message(b'\xff\xff\xff'), ok))[0], 'INTERNAL', 'no protobuf')
    expect(one(answer(HEAD, message(b'', 1), ok))[0], 'INTERNAL', 'flag without encoding')
    expect(one(answer(HEAD, message(b'', 2), ok))[0], 'INTERNAL', 'flag 2')
    strange = HEAD + [('grpc-encoding', 'lzma')]
    expect(one(answer(strange, message(b'', 1), ok))[0], 'INTERNAL', 'encoding')


@test
def a_message_over_the_limit_is_refused_at_its_prefix():
    expect(one(answer(HEAD, b'\x00\x7f\xff\xff\xff', [('grpc-status', '0')]))[0],
           'RESOURCE_EXHAUSTED')


@test
def broken_percent_escapes_are_kept():
    trailers = [('grpc-status', '10'), ('grpc-message', 'a%2 %zz %41')]
    expect(one(answer(HEAD, b'', trailers)), ['ABORTED', '0', 'a%2 %zz A'])


# ---- Streams, deadlines

@test
def messages_before_a_failure_are_delivered():
    body = message() * 3
    expect(one(answer(HEAD, body, [('grpc-status', '10'), ('grpc-message', 'end')]), '--stream'),
           ['ABORTED', '3', 'end'])


@test
def a_deadline_resets_the_stream_and_is_told_to_the_server():
    server = Server(lambda connection, stream: None)
    expect(codes(call(server, '--timeout', 100)), ['DEADLINE_EXCEEDED'])
    time.sleep(0.1)
    expect(server.connections[0].resets, {1: 8})
    timeout = server.heads[0][b'grpc-timeout' if b':path' in server.heads[0] else 'grpc-timeout']
    timeout = timeout.decode() if isinstance(timeout, bytes) else timeout
    assert 2 <= len(timeout) <= 9 and timeout[-1] in 'HMSmun' and timeout[:-1].isdigit(), timeout


@test
def nobody_listens_fails_now_or_waits_for_ready():
    server = Server(lambda connection, stream: connection.reply(stream))
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        # Bound and not listening: nobody else gets the port meanwhile.
        server.target = '127.0.0.1:%d' % nobody.getsockname()[1]
        expect(codes(call(server)), ['UNAVAILABLE'])
        expect(codes(call(server, '--wait-for-ready', '--timeout', 300)), ['DEADLINE_EXCEEDED'])


# ---- Connections of which nothing is heard

@test
def keepalive_finds_a_peer_that_is_gone():
    server = Server(lambda connection, stream: time.sleep(20))
    start = time.monotonic()
    expect(codes(call(server, '--timeout', 15000, '--keepalive', 1000)), ['UNAVAILABLE'])
    assert 1.9 < time.monotonic() - start < 6, time.monotonic() - start


@test
def keepalive_lets_a_peer_live_that_answers():
    def on_request(connection, stream):
        threading.Timer(3.5, lambda: (connection.reply(stream), connection.flush())).start()
    expect(codes(call(Server(on_request), '--timeout', 15000, '--keepalive', 1000)), ['OK'])


@test
def keepalive_is_halved_for_a_server_that_wants_calm():
    def on_request(connection, stream):
        if connection.number > 1:
            time.sleep(20)
        connection.reply(stream)
        connection.goaway(stream, 11)
    start = time.monotonic()
    expect(codes(call(Server(on_request), '--timeout', 15000, '--keepalive', 1000, '--calls', 2)),
           ['OK', 'UNAVAILABLE'])
    assert 2.9 < time.monotonic() - start < 8, time.monotonic() - start


@test
def idle_connections_are_closed():
    server = Server(lambda connection, stream: connection.reply(stream))
    expect(codes(call(server, '--calls', 2, '--pause', 3000, '--idle', 1000)), ['OK'] * 2)
    expect(len(server.connections), 2, 'connections')


# ---- Names

def name_server(addresses):
    """A DNS server of one thread: A records for every name that it has, else NXDOMAIN."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('127.0.0.1', 0))

    def serve():
        while True:
            query, peer = sock.recvfrom(1500)
            at, labels = 12, []
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            kind = query[at + 2]
            found = addresses.get('.'.join(labels))
            answers = b''
            if found and kind == 1:
                answers = b''.join(b'\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4' + socket.inet_aton(a)
                                   for a in found)
            sock.sendto(query[:2] + (b'\x81\x80' if found else b'\x81\x83') + b'\0\1' +
                        (len(answers) // 16).to_bytes(2, 'big') + b'\0\0\0\0' +
                        query[12:at + 5] + answers, peer)
    threading.Thread(target=serve, daemon=True).start()
    return '127.0.0.1:%d' % sock.getsockname()[1]


@test
def names_are_resolved_and_all_their_addresses_tried():
    server = Server(lambda connection, stream: connection.reply(stream))
    port = server.target.split(':')[1]
    dns = name_server({'pekoe.test': ['127.0.0.2', '127.0.0.1']})
    for target in f'localhost:{port}', f'dns:///localhost:{port}':
        server.target = target
        expect(codes(call(server)), ['OK'], target)
    for target in f'pekoe.test:{port}', f'dns:///pekoe.test:{port}':
        server.target = target
        expect(codes(call(server, '--dns', dns, '--calls', 3)), ['OK'] * 3, target)
    server.target = f'other.test:{port}'
    line = call(server, '--dns', dns)[0]
    expect(line[0], 'UNAVAILABLE')
    assert 'other.test' in line[2], line


@test
def a_name_server_that_is_silent_does_not_stop_deadlines():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(('127.0.0.1', 0))
        server = Server(lambda connection, stream: connection.reply(stream))
        server.target = 'pekoe.test:1'
        start = time.monotonic()
        expect(codes(call(server, '--timeout', 300, '--dns',
                          '127.0.0.1:%d' % silent.getsockname()[1])), ['DEADLINE_EXCEEDED'])
        assert time.monotonic() - start < 2


# ---- Several servers

@test
def a_server_that_goes_away_after_each_call_is_one_of_several_all_the_same():
    def leave(connection, stream):
        connection.reply(stream)
        connection.goaway(stream)
    servers = [Server(lambda connection, stream: connection.reply(stream)), Server(leave)]
    servers[0].target = 'ipv4:' + ','.join(server.target for server in servers)
    expect(codes(call(servers[0], '--round-robin', '--calls', 30, '--pause', 5)), ['OK'] * 30)
    for server in servers:
        assert server.request_count >= 8, server.request_count


@test
def a_server_that_greets_and_leaves_at_once_is_not_overrun():
    def leave(connection):
        connection.goaway(0)
        connection.flush()
    servers = [Server(lambda connection, stream: connection.reply(stream)),
               Server(lambda connection, stream: None, on_connect=leave)]
    servers[0].target = 'ipv4:' + ','.join(server.target for server in servers)
    expect(codes(call(servers[0], '--round-robin', '--calls', 20, '--pause', 20)), ['OK'] * 20)
    # Pauses of 50 ms and more, in half a second or somewhat more.
    assert 2 <= len(servers[1].connections) <= 40, len(servers[1].connections)


if __name__ == '__main__':
    sys.exit(main())
