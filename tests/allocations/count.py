#!/usr/bin/python3
"""Calls counting-server 100 at a time, with deadlines and varying metadata, until it allocates no more.

usage: count.py COUNTING-SERVER; with TLS_TEST_DATA over TLS (see servers.py)

After the warm-up, 2,000 calls may not cost the server's process a single malloc or free. And a batch
of 100 requests that arrives in one piece costs one read, one write, and no epoll_ctl. TAP.
"""
import pathlib
import random
import socket
import ssl
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'interop'))

import grpc
import h2.connection
import h2.events
from helloworld_pb2 import HelloReply, HelloRequest
from servers import Server, test_data

PATH = '/helloworld.Greeter/SayHello'
ROUNDS, AT_ONCE, WARM_UP = 20, 100, 10


def batches(port, rounds=10):
    """System calls of the server while batches of requests arrive whole, as (reads, writes, ctls)."""
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    stream = socket.create_connection(('127.0.0.1', port), timeout=10)
    if test_data():
        context = ssl.create_default_context(cafile=test_data() + '/ca.pem')
        context.set_alpn_protocols(['h2'])
        stream = context.wrap_socket(stream, server_hostname='localhost')
    stream.sendall(connection.data_to_send())
    head = [(':method', 'POST'), (':scheme', 'http'), (':path', PATH), (':authority', 'x'),
            ('content-type', 'application/grpc'), ('te', 'trailers')]

    def ask(names):
        """Sends all in one piece, waits for all replies, returns them in order."""
        bodies = {}
        for name in names:
            number = connection.get_next_available_stream_id()
            connection.send_headers(number, head + ([] if name == 'counts' else
                                                    [('grpc-timeout', '9S'), ('x-varying', 'v')]))
            text = HelloRequest(name=name).SerializeToString()
            connection.send_data(number, struct.pack('>BI', 0, len(text)) + text, end_stream=True)
            bodies[number] = b''
        stream.sendall(connection.data_to_send())
        left = set(bodies)
        while left:
            for event in connection.receive_data(stream.recv(1 << 20)):
                if isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                elif isinstance(event, h2.events.StreamEnded):
                    left.discard(event.stream_id)
        # What h2 wants to say by itself (settings, windows) goes with the next batch.
        return [HelloReply.FromString(body[5:]).message for body in bodies.values()]

    ask(['warm'])
    before = [int(n) for n in ask(['counts'])[0].split()]
    right = all(reply == 'Hello, n' for _ in range(rounds) for reply in ask(['n'] * AT_ONCE))
    after = [int(n) for n in ask(['counts'])[0].split()]
    stream.close()
    # Of the two questions themselves: one read for the second, one write for the first.
    return right, [b - a - own for a, b, own in zip(before[1:], after[1:], (1, 1, 0, 0))]


def main():
    files = [test_data() + '/server1' + end for end in ('.pem', '.key')] if test_data() else []
    server = Server([sys.argv[1], *files, '--listen', '127.0.0.1:0'])
    options = [('grpc.enable_http_proxy', 0)]
    if test_data():
        root = pathlib.Path(test_data(), 'ca.pem').read_bytes()
        channel = grpc.secure_channel(server.address, grpc.ssl_channel_credentials(root), options)
    else:
        channel = grpc.insecure_channel(server.address, options)
    method = channel.unary_unary(PATH, HelloRequest.SerializeToString, HelloReply.FromString)
    chance = random.Random(1)

    def round_of_calls(lengths=None):
        calls = []
        for i in range(AT_ONCE):
            value_length, name_length = lengths or (chance.randrange(4, 60),
                                                    chance.randrange(1, 100))
            value = '%0*x' % (value_length, chance.getrandbits(4 * value_length))
            name = ('w' if lengths else 'n') * name_length
            call = method.future(HelloRequest(name=name), timeout=chance.uniform(5, 30),
                                 metadata=[('x-varying', value)])
            calls.append((call, name, value))
        return all(call.result().message == f'Hello, {name}' and
                   dict(call.initial_metadata())['x-echo'] == value and
                   dict(call.trailing_metadata())['x-echo'] == value
                   for call, name, value in calls)

    def allocations():
        return int(method(HelloRequest(name='counts'), timeout=10).message.split()[0])

    # Each size class of memory once at its fullest, then a mix.
    right = all([round_of_calls((value, name)) for value in (4, 12, 24, 44, 59)
                 for name in (1, 30, 99, 250) for _ in range(2)])
    right = all([round_of_calls() for _ in range(WARM_UP)]) and right
    allocations()
    # A new high-water mark may still come, when the system cuts reads and writes in a new way. A
    # call that allocated would show in each run.
    for _ in range(4):
        before = allocations()
        right = all([round_of_calls() for _ in range(ROUNDS)]) and right
        made = allocations() - before
        print(f'# {ROUNDS * AT_ONCE} calls, {AT_ONCE} at once: {made} calls of malloc or free')
        if made == 0:
            break
    channel.close()
    batch_right, (reads, writes, ctls, of_openssl) = batches(server.port)
    # Two for each record that comes and two for each that goes, of 11: small writers of its own.
    print(f'# 10 batches of 100 requests: OpenSSL asks {of_openssl} times for memory')
    code = server.stop()
    tests = [(before > 0, 'the counter counts'),
             (right, 'every call was answered right'),
             (made == 0, 'a unary call in steady state calls neither malloc nor free'),
             (batch_right, 'batches are answered right'),
             (reads == 10, f'10 batches of 100 requests cost 10 reads (it was {reads})'),
             (writes == 10, f'10 batches of 100 requests cost 10 writes (it was {writes})'),
             (of_openssl <= 60, f'OpenSSL asks per record, not per call (it was {of_openssl} times)'),
             (ctls == 0, f'no call costs an epoll_ctl (it was {ctls})'),
             (code == 0, 'the server ends with 0 on SIGTERM')]
    print(f'1..{len(tests)}')
    for number, (ok, claim) in enumerate(tests, 1):
        print(f'{"ok" if ok else "not ok"} {number} - {claim}')
    return 0 if all(ok for ok, _ in tests) else 1


if __name__ == '__main__':
    sys.exit(main())
