#!/usr/bin/python3
"""What the client makes of servers that misbehave: faults.py CALLER. TAP on stdout.

The cases of gRPC's negative HTTP/2 tests (doc/http2-interop-test-descriptions.md), and the tables
of PROTOCOL-HTTP2.md and statuscodes.md.
"""
import json
import socket
import subprocess
import sys
import threading
import time

try:
    from fault_server import HEAD, Server, message
    import h2.settings
except ImportError:
    print('1..0 # SKIP python3-h2 is not installed (./dev setup installs it)')
    sys.exit(0)

CALLER = sys.argv[1]
tests = []


def test(function):
    tests.append(function)
    return function


def call(server, *arguments):
    """Runs the client; its lines, each split into code, messages and text."""
    run = subprocess.run([CALLER, '--target', server.target, *map(str, arguments)],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60,
                         check=False)
    assert run.returncode == 0, f'the client ended with {run.returncode}'
    return [line.split(' ', 2) for line in run.stdout.splitlines()]


def one(on_request, *arguments, settings=None):
    """The end of one call."""
    server = Server(on_request, settings)
    lines = call(server, *arguments)
    server.stop()
    assert len(lines) == 1, lines
    return lines[0]


def expect(actual, wanted, what=''):
    assert actual == wanted, f'{what}: {actual!r} instead of {wanted!r}'


def codes(lines):
    return [line[0] for line in lines]


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
    server = Server(lambda connection, stream: connection.reply(stream),
                    {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    expect(codes(call(server, '--calls', 30, '--parallel', 10)), ['OK'] * 30)
    expect(server.connections[0].open_most, 1, 'streams at once')
    expect(len(server.connections), 1, 'connections')


@test
def max_streams_is_lowered_to_none_and_raised_again():
    limit = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS

    def on_request(connection, stream):
        if len(connection.requests) == 10:
            connection.h2.update_settings({limit: 0})
            connection.flush()
            for waiting in connection.requests:
                connection.reply(waiting)
            connection.flush()
            time.sleep(0.2)
            connection.server.at_pause = connection.server.request_count
            connection.h2.update_settings({limit: 3})
        elif len(connection.requests) > 10:
            connection.reply(stream)
    server = Server(on_request, {limit: 10})
    expect(codes(call(server, '--calls', 50, '--parallel', 50)), ['OK'] * 50)
    expect(server.at_pause, 10, 'requests while there was no place')


@test
def calls_that_wait_for_a_place_keep_their_deadline():
    server = Server(lambda connection, stream: None,
                    {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
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

def answer(head, body=b'', trailers=None):
    """A response: fields, then bytes, then trailers (None: the body or the head is the end)."""
    def on_request(connection, stream):
        connection.head(stream, head, end=not body and trailers is None)
        if body:
            connection.data(stream, body, end=trailers is None)
        if trailers is not None:
            connection.h2.send_headers(stream, trailers, end_stream=True)
    return on_request


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


# ---- Retries: gRFC A6

def field(head, name):
    value = head.get(name, head.get(name.encode()))
    return value.decode() if isinstance(value, bytes) else value


def failing(times, status='14', more=(), head=None):
    """Fails the first calls, trailers only or after a head, then replies."""
    def on_request(connection, stream):
        connection.server.times = getattr(connection.server, 'times', []) + [time.monotonic()]
        if connection.server.request_count > times:
            connection.reply(stream)
        elif head:
            connection.head(stream, head)
            connection.trailers(stream, status)
        else:
            connection.head(stream, HEAD + [('grpc-status', status), *more], end=True)
    return on_request


@test
def failed_attempts_are_repeated_and_counted_for_the_server():
    server = Server(failing(3))
    expect(codes(call(server, '--retry', '--size', 1000)), ['OK'])
    expect([field(head, 'grpc-previous-rpc-attempts') for head in server.heads],
           [None, '1', '2', '3'])
    server = Server(failing(2, '10'))
    expect(codes(call(server, '--retry', '--stream')), ['OK'])


@test
def attempts_end_with_the_policys_number():
    server = Server(failing(100))
    expect(codes(call(server, '--retry')), ['UNAVAILABLE'])
    expect(server.request_count, 4, 'attempts')
    server = Server(failing(1))
    expect(codes(call(server)), ['UNAVAILABLE'], 'without a policy')


@test
def other_codes_and_responses_that_have_begun_are_not_repeated():
    server = Server(failing(1, '5'))
    expect(codes(call(server, '--retry')), ['NOT_FOUND'])
    server = Server(failing(1, head=HEAD))
    expect(codes(call(server, '--retry')), ['UNAVAILABLE'])
    expect(server.request_count, 1, 'attempts')


@test
def the_server_can_push_back():
    for no in '-1', 'soon', '', '99999999999':
        server = Server(failing(1, more=[('grpc-retry-pushback-ms', no)]))
        expect(codes(call(server, '--retry')), ['UNAVAILABLE'], no)
        expect(server.request_count, 1, 'attempts')
    server = Server(failing(1, more=[('grpc-retry-pushback-ms', '300')]))
    expect(codes(call(server, '--retry')), ['OK'])
    pause = server.times[1] - server.times[0]
    assert 0.3 <= pause < 1, pause


@test
def lost_connections_are_repeated_and_deadlines_hold():
    def on_request(connection, stream):
        if connection.server.request_count == 1:
            connection.sock.shutdown(2)
        else:
            connection.reply(stream)
    expect(codes(call(Server(on_request), '--retry')), ['OK'])
    server = Server(failing(100, more=[('grpc-retry-pushback-ms', '5000')]))
    expect(codes(call(server, '--retry', '--timeout', 200)), ['DEADLINE_EXCEEDED'])


@test
def too_many_failures_stop_repetitions():
    server = Server(failing(1000))
    expect(codes(call(server, '--retry', '--throttle', '--calls', 20)), ['UNAVAILABLE'] * 20)
    # Of 10 tokens, each of 5 failures takes one; then nothing is repeated.
    assert 20 < server.request_count <= 25, server.request_count


@test
def a_pause_that_the_server_names_starts_the_others_anew():
    def on_request(connection, stream):
        server = connection.server
        server.times = getattr(server, 'times', []) + [time.monotonic()]
        more = [('grpc-retry-pushback-ms', '10')] if server.request_count == 2 else []
        if server.request_count == 4:
            connection.reply(stream)
        else:
            connection.head(stream, HEAD + [('grpc-status', '14'), *more], end=True)
    server = Server(on_request)
    config = methods({'retryPolicy': {
        'maxAttempts': 4, 'initialBackoff': '0.2s', 'maxBackoff': '60s', 'backoffMultiplier': 50,
        'retryableStatusCodes': ['UNAVAILABLE']}})
    expect(codes(call(server, '--config', config)), ['OK'])
    pauses = [b - a for a, b in zip(server.times, server.times[1:])]
    assert 0.16 <= pauses[0] < 0.6 and pauses[1] < 0.15 and 0.16 <= pauses[2] < 0.6, pauses


@test
def two_pushbacks_are_none_that_can_be_followed():
    more = [('grpc-retry-pushback-ms', '1'), ('grpc-retry-pushback-ms', '1')]
    server = Server(failing(1, more=more))
    expect(codes(call(server, '--retry')), ['UNAVAILABLE'])


@test
def a_call_that_is_not_kept_is_not_repeated():
    for option, most, fits in (('--call-buffer', 50000, 40000), ('--buffer', 50000, 40000)):
        server = Server(failing(1))
        expect(codes(call(server, '--retry', '--size', 60000, option, most)), ['UNAVAILABLE'])
        expect(server.request_count, 1, 'attempts')
        expect(codes(call(Server(failing(1)), '--retry', '--size', fits, option, most)), ['OK'])


@test
def streams_that_never_left_are_replayed_until_one_does():
    # Each connection takes one call and says at once that it takes no more.
    def on_request(connection, stream):
        connection.reply(stream)
        connection.goaway(stream)
    server = Server(on_request, {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    expect(codes(call(server, '--calls', 20, '--parallel', 10)), ['OK'] * 20)


# ---- Service configs: gRFC A2, A6

def methods(config, **rest):
    service = {'service': 'grpc.testing.TestService'}
    return json.dumps({'methodConfig': [{'name': [service], **config}], **rest})


@test
def a_config_gives_timeouts_and_limits_and_waits():
    server = Server(lambda connection, stream: None)
    expect(codes(call(server, '--config', methods({'timeout': '0.1s'}))), ['DEADLINE_EXCEEDED'])
    expect(codes(call(server, '--timeout', 100, '--config', methods({'timeout': '9s'}))),
           ['DEADLINE_EXCEEDED'])
    small = methods({'maxRequestMessageBytes': 100})
    expect(codes(call(server, '--size', 200, '--config', small)), ['RESOURCE_EXHAUSTED'])
    expect(server.request_count, 2, 'requests')
    body = message(b'\x0a\xc8\x01\x12\xc5\x01' + bytes(197))
    server = Server(answer(HEAD, body, [('grpc-status', '0')]))
    expect(codes(call(server, '--config', methods({'maxResponseMessageBytes': '203'}))), ['OK'])
    expect(codes(call(server, '--config', methods({'maxResponseMessageBytes': 202}))),
           ['RESOURCE_EXHAUSTED'])
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        server.target = '127.0.0.1:%d' % nobody.getsockname()[1]
        config = methods({'waitForReady': True, 'timeout': '0.3s'})
        expect(codes(call(server, '--config', config)), ['DEADLINE_EXCEEDED'])


@test
def a_config_balances():
    servers = [Server(lambda connection, stream: connection.reply(stream)) for _ in range(2)]
    servers[0].target = 'ipv4:' + ','.join(server.target for server in servers)
    config = json.dumps({'loadBalancingConfig': [{'xds': {}}, {'round_robin': {}}]})
    expect(codes(call(servers[0], '--config', config, '--calls', 20, '--pause', 5)), ['OK'] * 20)
    for server in servers:
        assert server.request_count >= 8, server.request_count


@test
def a_config_repeats_and_throttles():
    retry = {'retryPolicy': {'maxAttempts': 3, 'initialBackoff': '.01s', 'maxBackoff': '1s',
                             'backoffMultiplier': 1.5, 'retryableStatusCodes': ['unavailable', 10]}}
    server = Server(failing(2, '10'))
    expect(codes(call(server, '--config', methods(retry))), ['OK'])
    server = Server(failing(3))
    expect(codes(call(server, '--config', methods(retry))), ['UNAVAILABLE'])
    server = Server(failing(1000))
    config = methods(retry, retryThrottling={'maxTokens': 10, 'tokenRatio': 0.1})
    expect(codes(call(server, '--config', config, '--calls', 20)), ['UNAVAILABLE'] * 20)
    assert 20 < server.request_count <= 25, server.request_count


# ---- Hedging: gRFC A6

def hedging(delay='0.1s', most=4, status=('UNAVAILABLE',), **rest):
    return methods({'hedgingPolicy': {'maxAttempts': most, 'hedgingDelay': delay,
                                      'nonFatalStatusCodes': list(status)}}, **rest)


def script(*steps):
    """What each attempt, in the order of requests, is answered with; None: nothing."""
    def on_request(connection, stream):
        server = connection.server
        server.times = getattr(server, 'times', []) + [time.monotonic()]
        step = steps[min(server.request_count, len(steps)) - 1]
        if step == 'OK':
            connection.reply(stream)
        elif step == 'reset':
            connection.reset(stream, 2)
        elif step == 'refuse':
            connection.reset(stream, 7)
        elif step == 'begin':
            connection.head(stream)
            connection.flush()
            threading.Timer(0.4, lambda: (connection.data(stream, message()),
                                          connection.trailers(stream), connection.flush())).start()
        elif step:
            status, *pushback = step.split()
            connection.head(stream, HEAD + [('grpc-status', status)] +
                            [('grpc-retry-pushback-ms', p) for p in pushback], end=True)
    return Server(on_request)


def pauses(server):
    return [b - a for a, b in zip(server.times, server.times[1:])]


@test
def the_next_attempt_follows_after_the_delay_and_the_first_answer_is_taken():
    server = script(None, None, 'OK')
    expect(codes(call(server, '--config', hedging(), '--size', 1000)), ['OK'])
    time.sleep(0.1)
    expect(server.request_count, 3, 'attempts')
    assert all(0.09 <= pause < 0.4 for pause in pauses(server)), pauses(server)
    expect([field(head, 'grpc-previous-rpc-attempts') for head in server.heads], [None, '1', '2'])
    expect(server.connections[0].resets, {1: 8, 3: 8}, 'the others are cancelled')


@test
def a_fast_answer_needs_no_second_attempt():
    server = script('OK')
    expect(codes(call(server, '--config', hedging(), '--calls', 3)), ['OK'] * 3)
    expect(server.request_count, 3, 'requests')


@test
def without_a_delay_all_attempts_are_sent_at_once():
    server = script(None, None, None, 'OK')
    expect(codes(call(server, '--config', hedging('0s'))), ['OK'])
    expect(server.request_count, 4, 'attempts')
    server = script(None)
    expect(codes(call(server, '--config', hedging('0s', 9), '--timeout', 200)),
           ['DEADLINE_EXCEEDED'])
    time.sleep(0.1)
    expect(server.request_count, 5, 'attempts at most')
    expect(len(server.connections[0].resets), 5, 'all are cancelled')


@test
def the_response_that_begins_first_is_the_calls():
    server = script('begin', 'OK')
    expect(codes(call(server, '--config', hedging())), ['OK'])
    expect(server.request_count, 1, 'no attempt after the head')
    server = script(None, 'begin', 'OK')
    expect(codes(call(server, '--config', hedging())), ['OK'])
    time.sleep(0.1)
    expect(server.connections[0].resets, {1: 8})


@test
def a_code_that_is_not_fatal_brings_the_next_attempt_forward():
    server = script('14', '14', 'OK')
    start = time.monotonic()
    expect(codes(call(server, '--config', hedging('5s'))), ['OK'])
    assert time.monotonic() - start < 3
    expect(server.request_count, 3, 'attempts')
    server = script('14', '10', '14')
    expect(codes(call(server, '--config', hedging('5s', 3, ['UNAVAILABLE', 'ABORTED']))),
           ['UNAVAILABLE'], 'when all have failed')
    expect(server.request_count, 3, 'attempts')


@test
def a_fatal_code_ends_the_call_and_the_other_attempts():
    server = script(None, '5', 'OK')
    expect(codes(call(server, '--config', hedging())), ['NOT_FOUND'])
    time.sleep(0.1)
    expect(server.request_count, 2, 'attempts')
    expect(server.connections[0].resets, {1: 8})
    expect(codes(call(script('reset'), '--config', hedging())), ['INTERNAL'])
    expect(codes(call(script('reset', 'OK'), '--config', hedging(status=['INTERNAL']))), ['OK'])


@test
def pushback_delays_hedges_or_ends_them():
    server = script('14 -1', 'OK')
    expect(codes(call(server, '--config', hedging())), ['UNAVAILABLE'])
    expect(server.request_count, 1, 'attempts')
    server = script(None, '14 -1', 'OK')
    expect(codes(call(server, '--config', hedging(), '--timeout', 500)), ['DEADLINE_EXCEEDED'])
    expect(server.request_count, 2, 'attempts')
    server = script('14 300', None, 'OK')
    expect(codes(call(server, '--config', hedging())), ['OK'])
    assert 0.29 <= pauses(server)[0] < 0.6 and 0.09 <= pauses(server)[1] < 0.4, pauses(server)


@test
def hedges_that_the_server_took_nothing_of_are_not_counted():
    server = script('refuse', 'OK')
    expect(codes(call(server, '--config', hedging('5s', 2))), ['OK'])
    expect([field(head, 'grpc-previous-rpc-attempts') for head in server.heads], [None, None])


@test
def hedges_are_throttled():
    server = script('14')
    config = hedging('5s', retryThrottling={'maxTokens': 10, 'tokenRatio': 0.1})
    expect(codes(call(server, '--config', config, '--calls', 20)), ['UNAVAILABLE'] * 20)
    assert 20 < server.request_count <= 25, server.request_count


@test
def hedges_that_find_nobody_fail_and_those_that_wait_go_on():
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))
        server = script('OK')
        server.target = '127.0.0.1:%d' % nobody.getsockname()[1]
        expect(codes(call(server, '--config', hedging())), ['UNAVAILABLE'])
        expect(codes(call(server, '--config', hedging(), '--wait-for-ready', '--timeout', 300)),
               ['DEADLINE_EXCEEDED'])


@test
def a_lost_connection_is_a_failed_attempt():
    def on_request(connection, stream):
        if connection.number == 1:
            connection.sock.shutdown(2)
        else:
            connection.reply(stream)
    expect(codes(call(Server(on_request), '--config', hedging('5s', 2))), ['OK'])
    expect(codes(call(Server(on_request), '--config', hedging('5s', 2, ['ABORTED']))),
           ['UNAVAILABLE'])


@test
def hedged_streams_deliver_one_response():
    server = script(None, 'OK')
    expect(call(server, '--config', hedging(), '--stream')[0][:2], ['OK', '1'])


@test
def a_hedged_call_that_is_not_kept_is_sent_once():
    server = script(None, 'OK')
    expect(codes(call(server, '--config', hedging(), '--size', 60000, '--call-buffer', 50000,
                      '--timeout', 400)), ['DEADLINE_EXCEEDED'])
    expect(server.request_count, 1, 'attempts')


@test
def hedges_go_to_different_servers():
    servers = [script(None), script('OK')]
    servers[0].target = 'ipv4:' + ','.join(server.target for server in servers)
    config = hedging('0.02s', loadBalancingPolicy='ROUND_ROBIN')
    expect(codes(call(servers[0], '--config', config, '--calls', 6, '--pause', 20)), ['OK'] * 6)


def main():
    failures = 0
    for number, function in enumerate(tests, 1):
        try:
            function()
            right = True
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f'{function.__name__}: {error}', file=sys.stderr)
            right = False
        failures += not right
        print('ok' if right else 'not ok', number, '-', function.__name__, flush=True)
    print(f'1..{len(tests)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
