#!/usr/bin/python3
"""The greeter's programs as a user runs them: both together, on threads, on a Unix socket, stopped.

usage: greeter.py GREETER-SERVER GREETER-CLIENT. TAP on stdout.
"""
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import time

import grpc

from helloworld_pb2 import HelloReply, HelloRequest
from servers import Server

SERVER, CLIENT = sys.argv[1:3]
SERVICE = '/helloworld.Greeter/'
TALK = '''SayHello: Hello, Anna
ItKeepsTalking: Hello, Anna, Bö
ItKeepsReplying: Hello, A
ItKeepsReplying: Hello, n
ItKeepsReplying: Hello, n
ItKeepsReplying: Hello, a
StreamHellos: Hello, Anna
StreamHellos: Hello, Bö
'''

started = []


def same(got, wanted):
    assert got == wanted, f'got {got!r}, wanted {wanted!r}'


def channel_to(address):
    return grpc.insecure_channel(address, options=[('grpc.enable_http_proxy', 0),
                                                   ('grpc.use_local_subchannel_pool', 1)])


def say_hello(channel, name):
    method = channel.unary_unary(SERVICE + 'SayHello', HelloRequest.SerializeToString,
                                 HelloReply.FromString)
    return method(HelloRequest(name=name), timeout=20).message


def start(*arguments):
    """A server that is ended with the test, however that ends."""
    server = Server([SERVER, *arguments])
    started.append(server)
    return server


def client(*arguments):
    return subprocess.run([CLIENT, *arguments], capture_output=True, text=True, timeout=60,
                          check=False)


def both():
    """the client gets the server's answers of every style"""
    server = start()
    run = client(server.address, 'Anna', 'Bö')
    same((run.returncode, run.stdout, run.stderr), (0, TALK, ''))
    run = client(server.address, '')
    same((run.returncode, run.stderr), (1, 'SayHello: INVALID_ARGUMENT: name is empty\n'))
    same(server.stop(), 0)
    run = client(server.address, 'Anna')
    same((run.returncode, run.stdout), (1, ''))
    same(run.stderr.count('UNAVAILABLE'), 4)


def wrong_arguments():
    """both programs tell how they are called"""
    for program, arguments in ((CLIENT, []), (CLIENT, ['127.0.0.1:1']), (CLIENT, ['nowhere', 'x']),
                               (SERVER, []), (SERVER, ['--listen']), (SERVER, ['--thread', '2']),
                               (SERVER, ['--listen', '127.0.0.1:0', '--threads', '0'])):
        run = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=20,
                             check=False)
        same(run.returncode, 2)
        assert 'usage: ' in run.stderr, run.stderr


def threads():
    """two threads serve eight connections of h2load's, and eight of grpcio's"""
    server = start('--threads', '2')
    with tempfile.TemporaryDirectory() as folder:
        request = pathlib.Path(folder, 'request.grpc')
        request.write_bytes(bytes.fromhex('0000000007 0a05 776f726c64'))
        run = subprocess.run(['h2load', '-n', '4000', '-c', '8', '-m', '20', '-d', str(request),
                              '-H', 'content-type: application/grpc', '-H', 'te: trailers',
                              f'http://{server.address}{SERVICE}SayHello'],
                             capture_output=True, text=True, timeout=100, check=False)
    found = re.search(r'status codes: (\d+) 2xx', run.stdout)
    same(found and found.group(1), '4000')
    channels = [channel_to(server.address) for _ in range(8)]
    for number, channel in enumerate(channels):
        same(say_hello(channel, str(number)), f'Hello, {number}')
    count = len(os.listdir(f'/proc/{server.process.pid}/task'))
    assert count in (2, 3), f'{count} threads'  # the third one is ThreadSanitizer's
    for channel in channels:
        channel.close()
    same(server.stop(), 0)


def unix_socket():
    """a Unix socket is served, and gone afterwards"""
    with tempfile.TemporaryDirectory() as folder:
        address = f'unix:{folder}/greeter'
        server = subprocess.Popen([SERVER, '--listen', address], stdout=subprocess.PIPE, text=True)
        try:
            assert address in server.stdout.readline()
            with channel_to(address) as channel:
                same(say_hello(channel, 'socket'), 'Hello, socket')
            same(client(address, 'Anna', 'Bö').stdout, TALK)
            server.send_signal(signal.SIGTERM)
            same(server.wait(20), 0)
            same(os.listdir(folder), [])
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


def graceful_stop():
    """a call in flight at SIGTERM is served to its end, and new connections are refused"""
    server = start('--threads', '2')
    names = queue.Queue()
    with channel_to(server.address) as channel:
        method = channel.stream_stream(SERVICE + 'StreamHellos', HelloRequest.SerializeToString,
                                       HelloReply.FromString)
        replies = method(iter(names.get, None), timeout=60)
        names.put(HelloRequest(name='before'))
        same(next(replies).message, 'Hello, before')
        server.process.send_signal(signal.SIGTERM)
        limit = time.monotonic() + 20
        while client(server.address, 'x').returncode == 0:
            assert time.monotonic() < limit, 'new connections are still served'
            time.sleep(0.05)
        same(server.process.poll(), None)
        for name in ('after', 'later'):
            names.put(HelloRequest(name=name))
            same(next(replies).message, f'Hello, {name}')
        names.put(None)
        same((list(replies), replies.code()), ([], grpc.StatusCode.OK))
    same(server.process.wait(20), 0)


TESTS = [both, wrong_arguments, threads, unix_socket, graceful_stop]


def main():
    failures = 0
    print(f'1..{len(TESTS)}', flush=True)
    for number, test in enumerate(TESTS, 1):
        try:
            test()
            problem = None
        except Exception as error:
            problem = f'{type(error).__name__}: {error}'
        for server in started:
            server.process.kill()
            server.process.wait()
        started.clear()
        failures += problem is not None
        print(f'{"not ok" if problem else "ok"} {number} - {test.__doc__}', flush=True)
        if problem:
            print('# ' + problem.replace('\n', '\n# '), flush=True)
    return failures > 0


if __name__ == '__main__':
    sys.exit(main())
