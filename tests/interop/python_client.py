#!/usr/bin/python3
"""python3-grpcio against the server of greeter_cases.md: python_client.py ADDRESS. TAP on stdout."""
import pathlib
import sys
import time
import traceback

import grpc

from servers import test_data
from helloworld_pb2 import HelloReply, HelloRequest

INITIAL = 'x-grpc-test-echo-initial'
TRAILING = 'x-grpc-test-echo-trailing-bin'


class Client:
    def __init__(self, address):
        options = [('grpc.max_receive_message_length', -1), ('grpc.enable_http_proxy', 0)]
        if test_data():
            root = pathlib.Path(test_data(), 'ca.pem').read_bytes()
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(root),
                                               options=options)
        else:
            self.channel = grpc.insecure_channel(address, options=options)
        self.say_hello = self.method('/helloworld.Greeter/SayHello')

    def method(self, path):
        return self.channel.unary_unary(path, HelloRequest.SerializeToString, HelloReply.FromString)

    def failure(self, name, **options):
        try:
            self.say_hello(HelloRequest(name=name), **options)
        except grpc.RpcError as error:
            return error
        raise AssertionError('the call succeeded')


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def unary(client):
    """a unary call is answered"""
    same(client.say_hello(HelloRequest(name='world'), timeout=10).message, 'Hello, world')


def empty_message(client):
    """an empty message, five zero bytes on the wire, is answered"""
    same(client.say_hello(HelloRequest(), timeout=10).message, 'Hello, ')


def text_of_all_kinds(client):
    """text outside ASCII comes back as it was"""
    same(client.say_hello(HelloRequest(name='Grüße, 世界 🍵'), timeout=10).message,
         'Hello, Grüße, 世界 🍵')


def error_with_message(client):
    """each code arrives, with a message of UTF-8 text, per cent signs and line ends"""
    text = 'nicht gefunden: “世界” 100% %41\r\n\ttab'
    for code in grpc.StatusCode:
        if code.value[0] == 0:
            continue
        error = client.failure(text, timeout=10,
                               metadata=[('test-status', str(code.value[0]))])
        same((error.code(), error.details()), (code, text))


def unknown_method(client):
    """an unknown method and an unknown service end with UNIMPLEMENTED"""
    for path in ('/helloworld.Greeter/Nothing', '/helloworld.Nobody/SayHello'):
        try:
            client.method(path)(HelloRequest(), timeout=10)
            raise AssertionError('the call succeeded')
        except grpc.RpcError as error:
            same(error.code(), grpc.StatusCode.UNIMPLEMENTED)


def deadline(client):
    """a deadline ends the call in time, and the connection goes on"""
    start = time.monotonic()
    error = client.failure('late', timeout=0.2, metadata=[('test-delay-ms', '5000')])
    taken = time.monotonic() - start
    same(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
    assert 0.19 <= taken < 3, f'after {taken} s'
    same(client.say_hello(HelloRequest(name='next'), timeout=10).message, 'Hello, next')


def delayed(client):
    """a reply that is completed later arrives"""
    same(client.say_hello(HelloRequest(name='later'), timeout=10,
                          metadata=[('test-delay-ms', '100')]).message, 'Hello, later')


def cancel(client):
    """a cancelled call ends as such, and the connection goes on"""
    call = client.say_hello.future(HelloRequest(name='x'), metadata=[('test-delay-ms', '5000')])
    time.sleep(0.1)
    call.cancel()
    same(call.code(), grpc.StatusCode.CANCELLED)
    same(client.say_hello(HelloRequest(name='next'), timeout=10).message, 'Hello, next')


def metadata(client):
    """metadata travels both ways: values in order, binary ones with every byte"""
    every_byte = bytes(range(256))
    sent = [(INITIAL, 'first'), (INITIAL, 'second, with comma'),
            (TRAILING, every_byte), (TRAILING, b''), (TRAILING, b'\x00')]
    _, call = client.say_hello.with_call(HelloRequest(name='m'), timeout=10, metadata=sent)
    same([v for k, v in call.initial_metadata() if k == INITIAL], ['first', 'second, with comma'])
    same([v for k, v in call.trailing_metadata() if k == TRAILING], [every_byte, b'', b'\x00'])


def metadata_with_error(client):
    """trailers come with an error too"""
    error = client.failure('bad', timeout=10,
                           metadata=[(TRAILING, b'\xff\x00'), ('test-status', '9')])
    same(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
    same([v for k, v in error.trailing_metadata() if k == TRAILING], [b'\xff\x00'])


def rich_details(client):
    """the details of an error, a google.rpc.Status, come with every byte"""
    details = b'\x08\x09\x12\x03bad\x1a\x06\x0a\x01t\x12\x01\xff'
    for given, wanted in (((), []), ([('test-details-bin', details)], [details])):
        error = client.failure('bad', timeout=10, metadata=[('test-status', '9'), *given])
        same((error.code(), error.details()), (grpc.StatusCode.FAILED_PRECONDITION, 'bad'))
        same([v for k, v in error.trailing_metadata() if k == 'grpc-status-details-bin'], wanted)


def large_messages(client):
    """messages of 3 MB travel both ways, several at once"""
    name = 'päckchen' * (3_000_000 // 9)
    calls = [client.say_hello.future(HelloRequest(name=name), timeout=60) for _ in range(4)]
    for call in calls:
        assert call.result().message == f'Hello, {name}'


def too_large(client):
    """a message over the limit is refused with RESOURCE_EXHAUSTED, and the connection goes on"""
    error = client.failure('x' * 4_194_304, timeout=30)
    same(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
    same(client.say_hello(HelloRequest(name='next'), timeout=10).message, 'Hello, next')


def many_calls(client):
    """10,000 calls on one connection, 100 at a time, each with its own answer"""
    calls = []
    for i in range(10_100):
        if i < 10_000:
            calls.append(client.say_hello.future(HelloRequest(name=str(i)), timeout=60))
        if i >= 100:
            same(calls[i - 100].result().message, f'Hello, {i - 100}')
            calls[i - 100] = None


CASES = [unary, empty_message, text_of_all_kinds, error_with_message, unknown_method, deadline,
         delayed, cancel, metadata, metadata_with_error, rich_details, large_messages, too_large,
         many_calls]


def main():
    client = Client(sys.argv[1])
    failures = 0
    for number, case in enumerate(CASES, 1):
        try:
            case(client)
            print(f'ok {number} - {case.__doc__}', flush=True)
        except Exception:  # a case reports any failure and lets the next one run
            failures += 1
            print(f'not ok {number} - {case.__doc__}', flush=True)
            traceback.print_exc()
    print(f'1..{len(CASES)}')
    return failures != 0


if __name__ == '__main__':
    sys.exit(main())
