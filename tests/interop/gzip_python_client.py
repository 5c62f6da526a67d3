#!/usr/bin/python3
"""gzip both ways with python3-grpcio: gzip_python_client.py ADDRESS. TAP on stdout.

The client hides what was compressed, so that its bytes go through a relay here that counts them,
and the server tells how each request came.
"""
import socket
import sys
import threading
import traceback

import grpc

from helloworld_pb2 import HelloReply, HelloRequest

LARGE = 'compressible ' * 40000


class Relay:
    """Passes one connection on and counts the bytes in each direction."""

    def __init__(self, address):
        host, port = address.rsplit(':', 1)
        self.target = (host.strip('[]'), int(port))
        self.sent = self.received = 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = f'127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            for pair in ((client, server, 'sent'), (server, client, 'received')):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, source, target, counter):
        try:
            while data := source.recv(65536):
                setattr(self, counter, getattr(self, counter) + len(data))
                target.sendall(data)
        except OSError:
            pass
        target.close()


class Client:
    def __init__(self, address):
        self.relay = Relay(address)
        self.channel = grpc.insecure_channel(self.relay.address, options=[
            ('grpc.enable_http_proxy', 0)])
        self.method = self.channel.unary_unary(
            '/helloworld.Greeter/SayHello', HelloRequest.SerializeToString, HelloReply.FromString)

    def call(self, name, compression, metadata=()):
        """(message, request came compressed, bytes sent, bytes received)"""
        sent, received = self.relay.sent, self.relay.received
        reply, call = self.method.with_call(
            HelloRequest(name=name), timeout=20, compression=compression,
            metadata=(('test-tell-compressed', '1'), *metadata))
        told = dict(call.initial_metadata()).get('x-request-compressed')
        return (reply.message, told == '1', self.relay.sent - sent,
                self.relay.received - received)


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def each_algorithm(client):
    """requests in gzip and deflate are read, and replies to them come compressed"""
    for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        message, compressed, sent, received = client.call(LARGE, compression)
        assert message == 'Hello, ' + LARGE
        same(compressed, True)
        assert sent < len(LARGE) / 10, f'{sent} bytes sent'
        assert received < len(LARGE) / 10, f'{received} bytes received'


def plain_request(client):
    """a request that is not compressed gets a compressed reply where the client accepts it"""
    message, compressed, sent, received = client.call(LARGE, grpc.Compression.NoCompression)
    assert message == 'Hello, ' + LARGE
    same(compressed, False)
    assert sent > len(LARGE), f'{sent} bytes sent'
    assert received < len(LARGE) / 10, f'{received} bytes received'


def small_reply(client):
    """a small message comes back right, whatever the client does to its request"""
    for compression in grpc.Compression:
        same(client.call('x', compression)[0], 'Hello, x')


def stream(client):
    """a stream's messages are compressed one by one"""
    method = client.channel.unary_stream('/helloworld.Greeter/ItKeepsReplying',
                                         HelloRequest.SerializeToString, HelloReply.FromString)
    received = client.relay.received
    replies = list(method(HelloRequest(name=LARGE), timeout=20, metadata=(('test-count', '5'),)))
    same([reply.message for reply in replies], [LARGE] * 5)
    received = client.relay.received - received
    assert received < 5 * len(LARGE) / 10, f'{received} bytes received'


def error(client):
    """an error answers a compressed request as any other"""
    try:
        client.call(LARGE[:1000], grpc.Compression.Gzip, (('test-status', '9'),))
    except grpc.RpcError as failure:
        same((failure.code(), failure.details()),
             (grpc.StatusCode.FAILED_PRECONDITION, LARGE[:1000]))
    else:
        raise AssertionError('the call succeeded')


def main():
    client = Client(sys.argv[1])
    cases = [each_algorithm, plain_request, small_reply, stream, error]
    failures = 0
    for number, case in enumerate(cases, 1):
        try:
            case(client)
            print(f'ok {number} - {case.__doc__}')
        except Exception:  # every failure is one test that failed
            failures += 1
            print(f'not ok {number} - {case.__doc__}')
            traceback.print_exc()
        sys.stdout.flush()
    client.channel.close()
    print(f'1..{len(cases)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
