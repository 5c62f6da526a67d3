#!/usr/bin/python3
"""When the client makes a call again: attempts.py CALLER. TAP on stdout.

Retries and hedging of gRFC A6, and the service configs of gRFC A2 that ask for them.
"""
import json
import socket
import sys
import threading
import time

from fault_calls import MAX_STREAMS, answer, call, codes, expect, main, test
from fault_server import HEAD, Server, message


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
    server = Server(on_request, {MAX_STREAMS: 1})
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


if __name__ == '__main__':
    sys.exit(main())
