#!/usr/bin/python3
"""Good clients beside hostile ones: hostile_client.py ADDRESS. TAP on stdout.

While the clients of hostile.py do their worst, each in its way, calls on a connection of python3-
grpcio's that is already there and gRPC-Web calls on new connections must all succeed.
HOSTILE_COUNT says how many connections stay half open (1,000), of the other kinds less.
"""
import http.client
import os
import pathlib
import resource
import subprocess
import sys
import time

import grpc

from helloworld_pb2 import HelloReply, HelloRequest

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 2  # that calls go on for beside each kind
LIMIT = 20  # seconds that a call may take on a busy machine
# Name -> its share of HOSTILE_COUNT, 1,000 at most but for the first. 400 that never read want more
# than a server's budget of bytes.
KINDS = {'half-open': 1, 'one-byte': 0.2, 'endless-headers': 0.05, 'never-reading': 0.4,
         'resetting': 0.05}


class Good:
    """Calls whose answers are checked; any that fails raises."""

    def __init__(self, address):
        self.address = address
        self.channel = grpc.insecure_channel(address, options=[('grpc.enable_http_proxy', 0)])
        self.say_hello = self.channel.unary_unary('/helloworld.Greeter/SayHello',
                                                  HelloRequest.SerializeToString,
                                                  HelloReply.FromString)
        self.keeps_replying = self.channel.unary_stream('/helloworld.Greeter/ItKeepsReplying',
                                                        HelloRequest.SerializeToString,
                                                        HelloReply.FromString)

    def unary(self, name):
        assert self.say_hello(HelloRequest(name=name), timeout=LIMIT).message == f'Hello, {name}'

    def stream(self, name):
        replies = [reply.message for reply in self.keeps_replying(HelloRequest(name=name),
                                                                  timeout=LIMIT)]
        assert replies == [name] * 3, replies

    def web(self, name):
        """gRPC-Web on a new connection: accepting and HTTP/1.1 must work too."""
        request = HelloRequest(name=name).SerializeToString()
        connection = http.client.HTTPConnection(self.address, timeout=LIMIT)
        connection.request('POST', '/helloworld.Greeter/SayHello',
                           b'\0' + len(request).to_bytes(4, 'big') + request,
                           {'content-type': 'application/grpc-web+proto'})
        body = connection.getresponse().read()
        connection.close()
        length = int.from_bytes(body[1:5], 'big')
        assert HelloReply.FromString(body[5:5 + length]).message == f'Hello, {name}'
        assert b'grpc-status: 0' in body or b'grpc-status:0' in body, body

    def call_for(self, seconds):
        """Returns how many calls were right, and the longest time of one."""
        calls, longest, end = 0, 0.0, time.monotonic() + seconds
        while time.monotonic() < end or calls < 30:
            begun = time.monotonic()
            (self.unary, self.stream, self.web)[calls % 3](f'good {calls}')
            longest = max(longest, time.monotonic() - begun)
            calls += 1
        return calls, longest


def beside(good, kind, count):
    hostile = subprocess.Popen([sys.executable, HERE / 'hostile.py', good.address, kind, str(count)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert hostile.stdout.readline() == 'ready\n', 'the hostile clients did not begin'
        calls, longest = good.call_for(SECONDS)
        assert hostile.poll() is None, 'the hostile clients ended early'
        hostile.stdin.close()
        opened = hostile.stdout.read().strip()
        assert hostile.wait(LIMIT) == 0
    finally:
        hostile.kill()
        hostile.wait()
    print(f'# beside {count} {kind}: {calls} calls, the longest took {longest * 1000:.0f} ms; '
          f'{opened}', flush=True)


def main():
    count = int(os.environ.get('HOSTILE_COUNT', 1000))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500  # run.py has raised it
    if count > most:
        print(f'# {count} connections are more than the descriptors allow: {most}')
        count = most
    print(f'1..{len(KINDS) + 1}')
    failed = 0
    good = Good(sys.argv[1])
    for number, kind in enumerate([*KINDS, None], 1):
        what = f'calls succeed beside {kind} clients' if kind else 'calls succeed afterwards'
        try:
            if kind:
                beside(good, kind, count if kind == 'half-open'
                       else min(int(count * KINDS[kind]), 1000))
            else:
                good.call_for(0)
            print(f'ok {number} - {what}', flush=True)
        except Exception as error:
            failed += 1
            print(f'not ok {number} - {what}')
            print(f'# {type(error).__name__}: {error}'.replace('\n', '\n# '), flush=True)
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
